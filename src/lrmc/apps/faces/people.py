"""Pictures of people in folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...weights import Array
from ..pictures import one_depth, pictures_in, read_picture, white_of
from .model import FEWEST


@dataclass(frozen=True, eq=False)
class Person:
    """Pictures of one person and where they came from."""

    name: str
    paths: tuple[Path, ...]
    images: Array

    @property
    def white(self) -> int:
        """The value that is shown as white."""
        return (
            255 if self.images.dtype == np.uint8 else white_of(int(self.images.max()))
        )


def read_people(source: Path) -> list[Person]:
    """The pictures of each sub-folder; of the folder itself if it has none."""
    if not source.is_dir():
        raise ValueError(f"{source}: there is no such folder")
    folders = sorted(
        path
        for path in source.iterdir()
        if path.is_dir() and not path.name.startswith(".")
    )
    found = {}
    for folder in folders or [source]:
        paths = pictures_in(folder)
        if paths:
            found[folder] = paths
    if not found:
        raise ValueError(
            f"{source}: there are no pictures in it, nor in its sub-folders"
        )
    return [
        Person(folder.name, tuple(paths), _read_pictures(paths))
        for folder, paths in found.items()
    ]


def _read_pictures(paths: Sequence[Path]) -> Array:
    if len(paths) < FEWEST:
        raise ValueError(
            f"{paths[0].parent} has {len(paths)} picture(s); at least {FEWEST} of a"
            " person are wanted"
        )
    pictures = []
    for path in paths:
        pictures.append(read_picture(path, "faces"))
        if pictures[-1].shape[:2] != pictures[0].shape[:2]:
            here, there = (
                f"{p.shape[1]} x {p.shape[0]}" for p in (pictures[-1], pictures[0])
            )
            raise ValueError(
                f"{path} has {here} pixels, {paths[0].name} {there}; crop faces to one"
                " size first"
            )
    one_depth(pictures, paths[0].parent)
    if any(p.ndim == 3 for p in pictures):
        pictures = [
            p if p.ndim == 3 else np.repeat(p[..., None], 3, 2) for p in pictures
        ]
    return np.stack(pictures)
