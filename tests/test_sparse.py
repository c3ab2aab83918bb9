"""Sparse matrices from damaged or hostile files are refused in every format, before
anything trusts them.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from each import each

from lrmc import as_observations
from lrmc.complete.tables import read
from lrmc.formats.sparse import sound
from lrmc.observations import _door

FORMATS = ("csr", "csc", "bsr", "coo", "dia", "dok", "lil")
KINDS = [
    getattr(sp, f"{name}_{kind}") for name in FORMATS for kind in ("array", "matrix")
]


def whole():
    Y = np.arange(24.0).reshape(4, 6)
    Y[1], Y[:, 2] = 0, 0
    return Y


@each("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", [float, np.uint8])
def test_sound_matrices_pass(kind, dtype):
    Y = kind(whole().astype(dtype))
    assert sound(Y) is Y
    assert sound(kind((4, 6), dtype=dtype)).shape == (4, 6)  # nothing stored
    rows, cols = np.nonzero(whole())
    np.testing.assert_array_equal(
        as_observations(Y).lookup(rows, cols), whole()[rows, cols]
    )


def blocks(kind):
    return kind(whole(), blocksize=(2, 3))


def set_at(name, i, value):
    def damage(Y):
        getattr(Y, name)[i] = value

    return damage


def replaced(name, change):
    def damage(Y):
        setattr(Y, name, change(getattr(Y, name)))

    return damage


HUGE = 2**30
DAMAGES = {
    ("csr", "csc", "bsr"): [
        set_at("indices", 0, HUGE),
        set_at("indices", -1, -1),
        set_at("indptr", 0, 1),
        set_at("indptr", 1, -3),
        set_at("indptr", 1, HUGE),
        set_at("indptr", -1, HUGE),
        # stores nothing, it says
        lambda Y: (set_at("indptr", 1, HUGE)(Y), set_at("indptr", -1, 0)(Y)),
        replaced("indptr", lambda x: x[:-1]),
        replaced("indptr", lambda x: np.append(x, x[-1])),
        replaced("indices", lambda x: x[:-1]),
        replaced("indices", lambda x: x.astype(float)),
        replaced("data", lambda x: x[:-1]),
        replaced("data", lambda x: np.concatenate([x, x])),
    ],
    ("bsr",): [
        replaced("data", lambda x: np.repeat(x, 2, axis=1)),
        replaced("data", lambda x: x[:, :0]),
    ],
    ("coo",): [
        set_at("row", 0, HUGE),
        set_at("col", 0, 6),
        set_at("row", 3, -1),
        replaced("data", lambda x: x[:-1]),
    ],
    ("dia",): [
        set_at("offsets", 0, HUGE),
        set_at("offsets", 0, -(2**31)),
        replaced("offsets", lambda x: x[:-1]),
        replaced("offsets", lambda x: x.astype(str)),
        lambda Y: set_at("offsets", 0, Y.offsets[1])(Y),
    ],
    ("lil",): [
        lambda Y: set_at("rows", 0, [*Y.rows[0][:-1], HUGE])(Y),
        lambda Y: set_at("rows", 0, [-1, *Y.rows[0][1:]])(Y),
        lambda Y: set_at("rows", 0, Y.rows[0][:-1])(Y),
        replaced("rows", lambda x: x[:-1]),
        set_at("rows", 0, None),
        set_at("data", 0, 3),
        lambda Y: set_at("rows", 0, ["x"] * len(Y.rows[0]))(Y),
        lambda Y: set_at("rows", 0, [2**70] * len(Y.rows[0]))(Y),
        lambda Y: set_at("data", 0, ["x"] * len(Y.rows[0]))(Y),
    ],
    ("dok",): [
        lambda Y: Y._dict.update({(0, HUGE): 1.0}),
        lambda Y: Y._dict.update({(-1, 0): 1.0}),
        lambda Y: Y._dict.update({(0,): 1.0}),
        lambda Y: Y._dict.update({("a", 0): 1.0}),
        lambda Y: Y._dict.update({(0, 0): "x"}),
    ],
}
CASES = [
    (name, damage)
    for names, damages in DAMAGES.items()
    for name in names
    for damage in damages
]


@pytest.mark.parametrize("kind", ["array", "matrix"])
@each(("name", "damage"), CASES)
def test_damaged_matrices_are_refused(name, kind, damage):
    make = getattr(sp, f"{name}_{kind}")
    Y = blocks(make) if name == "bsr" else make(whole())
    damage(Y)
    for door in (sound, as_observations):
        with pytest.raises(
            ValueError, match=rf"the sparse matrix \({name}\) is damaged: "
        ):
            door(Y)
    with pytest.raises(ValueError, match="is damaged: "):
        as_observations(np.ones((4, 6)), mask=Y)


@each("dtype", ["U3", object, "M8[s]"])
@each("form", ["csr", "coo"])
def test_entries_that_are_no_numbers(form, dtype):
    Y = sp.coo_array(whole()).asformat(form)
    Y.data = np.zeros(Y.data.shape, dtype)
    for function in (as_observations, lambda mask: as_observations(whole(), mask)):
        with pytest.raises(
            ValueError,
            match=r"the sparse matrix holds entries of type .*; numbers are wanted",
        ):
            function(Y)


@each("dtype", ["f2", ">f8", ">i2"])
def test_types_that_scipy_does_not_compute_with(dtype):
    Y = sp.coo_array(whole())
    Y.data = Y.data.astype(dtype)
    rows, cols = np.nonzero(whole())
    np.testing.assert_array_equal(
        as_observations(Y).lookup(rows, cols), whole()[rows, cols]
    )


@each("which", ["indptr", "indices"])
@each("form", ["csr", "csc", "bsr"])
def test_hostile_files(form, which, tmp_path):
    path = tmp_path / "hostile.npz"
    Y = blocks(sp.bsr_array) if form == "bsr" else getattr(sp, f"{form}_array")(whole())
    content = {
        "format": form.encode(),
        "shape": Y.shape,
        "data": Y.data,
        "indices": Y.indices,
        "indptr": Y.indptr,
    }
    content[which] = content[which].copy()
    content[which][1] = 10**6
    np.savez(path, **content)
    with pytest.raises(ValueError, match="is damaged: "):
        read(path)


def test_room_for_more_entries():
    """scipy may keep arrays that are longer than what is stored."""
    Y = sp.csr_array(whole())
    want = as_observations(Y).pull(np.ones((4, 1)), np.ones((6, 1)), 1.0)
    Y.data, Y.indices = (
        np.append(Y.data, np.inf),
        np.append(Y.indices, 99).astype(Y.indices.dtype),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = as_observations(Y).pull(np.ones((4, 1)), np.ones((6, 1)), 1.0)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def test_entries_mapped_from_files(tmp_path, monkeypatch):
    """Looked at piece by piece, and read where they are; gaps among them are left out."""
    monkeypatch.setattr(_door, "AT_ONCE", 64)
    rng = np.random.default_rng(0)
    Y = sp.random_array((300, 40), density=0.1, format="csr", rng=rng)
    mapped = []
    for name in ("data", "indices", "indptr"):
        path = tmp_path / name
        getattr(Y, name).tofile(path)
        mapped.append(np.memmap(path, getattr(Y, name).dtype, "r"))
    obs = as_observations(sp.csr_array(tuple(mapped), shape=Y.shape), threads=1)
    assert np.shares_memory(obs.values, mapped[0])
    np.testing.assert_array_equal(obs.col_observed, (Y.toarray() != 0).sum(0))
    L, R = rng.standard_normal((300, 2)), rng.standard_normal((40, 2))
    want = as_observations(Y, threads=1).pull(L, R, 0.5)
    for a, b in zip(obs.pull(L, R, 0.5), want, strict=True):
        np.testing.assert_array_equal(a, b)
    Y.data[::7] = np.nan
    assert as_observations(Y).n_observed == np.isfinite(Y.data).sum()
    Y.data[100] = np.inf
    with pytest.raises(ValueError, match="infinite"):
        as_observations(Y)
