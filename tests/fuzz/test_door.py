"""Anything at all as a matrix, a mask or an argument: an answer that is sound, or a
refusal in our own words.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import (
    array_dtypes,
    array_shapes,
    arrays,
    nested_dtypes,
    scalar_dtypes,
)

import lrmc
from fuzz import strange
from fuzz.effort import rounds
from fuzz.oracle import answered, check_sound, look

KINDS = {
    "array": lambda rng, folder: strange.array(rng),
    "masked": lambda rng, folder: strange.masked(rng),
    "nested": lambda rng, folder: strange.nested(rng),
    "thing": lambda rng, folder: strange.thing(rng),
    "posing": lambda rng, folder: strange.Posing(rng),
    "sparse": lambda rng, folder: strange.sparse(rng),
    "pandas": lambda rng, folder: strange.frame(rng),
    "torch": lambda rng, folder: strange.tensor(rng),
    "xarray": lambda rng, folder: strange.data_array(rng),
    "dask": lambda rng, folder: strange.dask_array(rng),
    "memmap": strange.memmap,
    "zarr": strange.zarr_array,
}
QUICK = {"dask": 25, "sparse": 200, "pandas": 120}


def shape_of(Y):
    shape = getattr(Y, "shape", None)
    return (
        tuple(shape)
        if isinstance(shape, tuple)
        and all(type(n) is int and 0 <= n < 50 for n in shape)
        else (3, 3)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_any_matrix(kind, tmp_path):
    if kind in ("pandas", "torch", "xarray", "dask", "zarr"):
        pytest.importorskip(kind)
    for seed in rounds(QUICK.get(kind, 60)):
        rng = np.random.default_rng(seed)
        Y = KINDS[kind](rng, tmp_path)
        mask = strange.a_mask(rng, shape_of(Y)) if rng.random() < 0.2 else None
        before = look(Y), look(mask)
        obs = answered(lambda Y=Y, mask=mask: lrmc.as_observations(Y, mask))
        assert (look(Y), look(mask)) == before
        if obs is not None:
            result = answered(
                lambda obs=obs, rng=rng: lrmc.solve(obs, **strange.rank_and_passes(rng))
            )
            if result is not None:
                check_sound(result)
            assert (look(Y), look(mask)) == before


def test_any_mask():
    for seed in rounds(60):
        rng = np.random.default_rng(seed)
        Y = strange.plain(rng)
        mask = strange.a_mask(rng, Y.shape)
        before = look(Y), look(mask)
        obs = answered(lambda Y=Y, mask=mask: lrmc.as_observations(Y, mask))
        assert (look(Y), look(mask)) == before
        if obs is not None and mask is not None:
            seen = ~np.isnan(Y) & np.asarray(
                mask.toarray() if hasattr(mask, "toarray") else mask
            ).astype(bool)
            assert obs.n_observed == seen.sum()


def test_any_arguments():
    for seed in rounds(150):
        rng = np.random.default_rng(seed)
        Y = strange.plain(rng)
        asked = strange.arguments(rng, Y.shape)
        before = look(Y), look(asked)
        result = answered(lambda Y=Y, asked=asked: lrmc.solve(Y, **asked))
        assert (look(Y), look(asked)) == before
        if result is not None:
            check_sound(result)


def test_values_at_the_ends_of_the_range():
    for seed in rounds(60):
        rng = np.random.default_rng(seed)
        Y = strange.plain(rng, extremes=True)
        result = answered(
            lambda Y=Y, rng=rng: lrmc.solve(Y, **strange.rank_and_passes(rng))
        )
        if result is not None:
            check_sound(result)


# ---- the same with numbers that hypothesis makes, which finds the smallest that fail

shapes = array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=5)
kinds = st.one_of(scalar_dtypes(), array_dtypes(), nested_dtypes(max_itemsize=40))


@settings(max_examples=20)
@given(arrays(kinds, shapes))
def test_arrays_of_any_type(Y):
    before = look(Y)
    answered(lambda: lrmc.as_observations(Y))
    answered(lambda: lrmc.as_observations(np.ones((2, 3)), mask=Y))
    assert look(Y) == before


moderate = st.floats(-1e6, 1e6, width=32).map(lambda x: round(x, 3))
matrices = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, max_side=7),
    elements=moderate | st.just(np.nan),
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    st.lists,
)
NAMES = (
    "rank",
    "method",
    "schedule",
    "loss",
    "outliers",
    "groups",
    "row_noise",
    "col_noise",
    "start",
    "tol",
    "seed",
)


@given(matrices, st.dictionaries(st.sampled_from(NAMES), anything, max_size=2))
def test_arguments_of_any_type(Y, asked):
    result = answered(lambda: lrmc.solve(Y, **{"max_iter": 3, "threads": 1} | asked))
    if result is not None:
        check_sound(result)
