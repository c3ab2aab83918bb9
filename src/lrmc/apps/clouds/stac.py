"""STAC items beside the outputs, of scenes that have one: X.json beside X.tif.

An item of STAC is a JSON object that says where and when a scene was taken and which files it has.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ... import __version__

Item = dict[str, Any]  # as JSON has it
LARGEST = 1 << 24  # bytes of an item; they have some thousands
TIFF = "image/tiff; application=geotiff; profile=cloud-optimized"
# The key of a file that a scene has beside it, how its name ends, and what it is for.
BESIDE = (
    ("cloud_mask", "_mask.tif", ["data-mask"]),
    ("standard_deviation", "_sd.tif", ["uncertainty"]),
)
PROCESSING = "https://stac-extensions.github.io/processing/v1.2.0/schema.json"
LINEAGE = "Clouds, shadows and gaps were filled by what other dates show."
# Links that say where the item itself is, and properties of the scene with its clouds.
OF_ITSELF = ("self", "root", "parent", "collection", "canonical", "alternate")
NO_MORE = ("created", "updated", "eo:cloud_cover")


def item_of(scene: Path) -> Item | None:
    """The item beside a scene; None if there is none, or something else."""
    path = scene.with_suffix(".json")
    if not path.is_file() or path.stat().st_size > LARGEST:
        return None
    try:
        item = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    known = isinstance(item, dict) and item.get("type") == "Feature"
    return item if known and "stac_version" in item else None


def write_item(folder: Path, scene: Path) -> None:
    """An item for what was made of a scene, if the scene has one."""
    item = item_of(scene)
    if item is None:
        return
    text = json.dumps(_cleared(item, folder, scene), indent=2)
    (folder / f"{scene.stem}.json").write_text(text + "\n", encoding="utf-8")


def _cleared(item: Item, folder: Path, scene: Path) -> Item:
    properties = _object(item, "properties")
    properties = {key: x for key, x in properties.items() if key not in NO_MORE}
    properties["processing:lineage"] = LINEAGE
    properties["processing:software"] = {"lrmc": __version__}
    extensions = [one for one in _list(item, "stac_extensions") if one != PROCESSING]
    kept = {key: x for key, x in item.items() if key != "collection"}
    return kept | {
        "id": f"{item.get('id', scene.stem)}-cloudless",
        "properties": properties,
        "stac_extensions": [*extensions, PROCESSING],
        "assets": _assets(item, folder, scene),
        "links": _links(item, scene),
    }


def _assets(item: Item, folder: Path, scene: Path) -> Item:
    """The files that were made; what the item says of the bands of the scene stays."""
    name, about = "data", Item()
    for key, asset in _object(item, "assets").items():
        if isinstance(asset, dict) and Path(str(asset.get("href"))).name == scene.name:
            name, about = key, asset
    roles = {"roles": ["data"]} | about
    assets = {name: roles | {"href": f"./{scene.stem}.tif", "type": TIFF}}
    for key, ending, role in BESIDE:
        file = f"{scene.stem}{ending}"
        if (folder / file).is_file():
            assets[key] = {"href": f"./{file}", "type": TIFF, "roles": role}
    assets["thumbnail"] = {
        "href": f"./quicklooks/{scene.stem}.png",
        "type": "image/png",
        "roles": ["thumbnail"],
        "title": "before and after",
    }
    return assets


def _links(item: Item, scene: Path) -> list[Item]:
    """Those that still hold, and where all this comes from."""
    links = [link for link in _list(item, "links") if isinstance(link, dict)]
    own = [link.get("href") for link in links if link.get("rel") == "self"]
    source = own[0] if own else os.path.realpath(scene.with_suffix(".json"))
    kept = [link for link in links if link.get("rel") not in OF_ITSELF]
    about = {"rel": "derived_from", "href": source, "type": "application/geo+json"}
    return [*kept, about]


def _object(item: Item, key: str) -> Item:
    found = item.get(key)
    return found if isinstance(found, dict) else {}


def _list(item: Item, key: str) -> list[Any]:
    found = item.get(key)
    return found if isinstance(found, list) else []
