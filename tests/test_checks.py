"""The doors say the same words: data in memory, on disk, in Dask, in a tensor, and in
front of a network.
"""

import numpy as np
import pytest

import lrmc
from lrmc import outofcore

Y = np.arange(1.0, 31).reshape(6, 5)


def in_dask(Y, mask=None, chunks=2):
    da = pytest.importorskip("dask.array")
    mask = None if mask is None else da.from_array(mask, chunks=2)
    return lrmc.as_observations(
        da.from_array(Y, chunks=chunks if Y.ndim == 2 else -1), mask
    )


def in_tensor(Y, mask=None, turned=False):
    torch = pytest.importorskip("torch")
    lt = pytest.importorskip("lrmc.torch")
    Y = torch.tensor(Y.T).permute(*range(Y.ndim)[::-1]) if turned else torch.tensor(Y)
    return lt.as_torch_observations(Y, None if mask is None else torch.tensor(mask))


def before_a_network(Y, mask=None):
    torch = pytest.importorskip("torch")
    lt = pytest.importorskip("lrmc.torch")
    layers = lt.UnrolledLRMC(lrmc.Schedule(zeta=(1.0, 0.5), eta=(0.5,)), 1)
    return layers(torch.tensor(Y), None if mask is None else torch.tensor(mask))


DOORS = {
    "memory": lrmc.as_observations,
    "by columns": lambda Y, mask=None: lrmc.as_observations(np.asfortranarray(Y), mask),
    "disk": outofcore.blocks,
    "disk, by columns": lambda Y, mask=None: outofcore.blocks(
        np.asfortranarray(Y), mask
    ),
    "dask": in_dask,
    "dask, by columns": lambda Y, mask=None: in_dask(Y, mask, chunks=(-1, 1)),
    "tensor": in_tensor,
    "tensor, by columns": lambda Y, mask=None: in_tensor(Y, mask, turned=True),
    "network": before_a_network,
}
every_door = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)

MASKS = {
    "transposed": (
        np.ones((5, 6), bool),
        r"^mask has shape \(5, 6\), the matrix \(6, 5\); transpose one of them\?$",
    ),
    "another shape": (
        np.ones((6, 4), bool),
        r"^mask has shape \(6, 4\), the matrix \(6, 5\)$",
    ),
    "complex": (
        np.ones((6, 5), complex),
        r"^mask has type (torch\.)?complex128; booleans are wanted",
    ),
    "levels": (
        np.full((6, 5), 255, np.uint8),
        "^mask holds 255; booleans .* or the numbers 0 and 1: give mask != 0",
    ),
    "one level": (np.where(Y == 17, 2, 1), "^mask holds 2; booleans are wanted"),
    "weights": (np.full((6, 5), 0.5), "^mask holds 0.5; booleans are wanted"),
    "NaN": (np.full((6, 5), np.nan), "^mask holds nan; booleans are wanted"),
    "nothing": (
        np.zeros((6, 5), bool),
        "^nothing is observed: all entries of the 6 x 5 matrix are missing$",
    ),
}


@every_door
@pytest.mark.parametrize(("mask", "said"), MASKS.values(), ids=MASKS)
def test_masks_are_refused(door, mask, said):
    with pytest.raises(ValueError, match=said):
        door(Y, mask)


@every_door
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float64])
def test_masks_of_zeros_and_ones(door, dtype):
    seen = Y % 7 > 1
    same, want = door(Y, seen.astype(dtype)), door(np.where(seen, Y, np.nan))
    if door is before_a_network:
        assert np.array_equal(same.L.detach(), want.L.detach())
    else:
        assert same.n_observed == want.n_observed == seen.sum()


MATRICES = {
    "complex": (
        Y * 1j,
        "^the matrix holds complex numbers; .* give real numbers, such as their absolute values; lrmc.solve takes",
    ),
    "infinite": (
        np.where(Y % 2 == 0, Y, -np.inf),
        "^15 observed entries are infinite; set them to NaN",
    ),
    "nothing": (
        Y * np.nan,
        "^nothing is observed: all entries of the 6 x 5 matrix are missing$",
    ),
}


@every_door
@pytest.mark.parametrize(("bad", "said"), MATRICES.values(), ids=MATRICES)
def test_matrices_are_refused(door, bad, said):
    with pytest.raises(ValueError, match=said):
        door(bad)


@pytest.mark.parametrize(
    "door", [door for name, door in DOORS.items() if name != "network"]
)
def test_shapes_are_refused(door):
    with pytest.raises(
        ValueError,
        match=r"^a 2-D matrix is wanted, but the input has 3 dimension\(s\), shape \(6, 5, 1\)",
    ):
        door(Y[:, :, None])
    with pytest.raises(ValueError, match=r"^the matrix is empty: shape \(0, 5\)$"):
        door(Y[:0])


def test_a_batch_has_one_mask_or_as_many():
    torch = pytest.importorskip("torch")
    two, seen = np.stack([Y, -Y]), Y % 7 > 1
    lt = pytest.importorskip("lrmc.torch")
    layers = lt.UnrolledLRMC(lrmc.Schedule(zeta=(1.0, 0.5), eta=(0.5,)), 1)
    one, many = (
        layers(torch.tensor(two), torch.tensor(mask))
        for mask in (seen, np.stack([seen, seen]))
    )
    assert torch.equal(one.L, many.L)
    with pytest.raises(
        ValueError,
        match=r"mask has shape \(2, 5, 6\), the matrix \(2, 6, 5\); transpose",
    ):
        layers(torch.tensor(two), torch.ones(2, 5, 6, dtype=torch.bool))
