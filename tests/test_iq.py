"""Complex (IQ) ultrasound: simulated blood that is known, files of the field, and faults."""

import gzip
import itertools
import struct
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from numpy.testing import assert_allclose, assert_array_equal
from scipy import ndimage

import lrmc
from lrmc import _extras
from lrmc.apps.ultrasound import flow, iq
from lrmc.apps.ultrasound.cines import read_cine
from lrmc.apps.ultrasound.files import color_doppler, process
from lrmc.apps.ultrasound.model import separate


@pytest.fixture(scope="module")
def simulated():
    import sys

    folder = str(Path(__file__).resolve().parents[1] / "experiments")
    sys.path.insert(0, folder)
    try:
        import iq as experiment
    finally:
        sys.path.remove(folder)
    return experiment


@pytest.fixture(scope="module")
def made(simulated):
    return simulated.scene(7, frames=120, size=48)


@pytest.fixture(scope="module")
def parts(made):
    return separate(made.cine)


def test_blood_is_3_decibels_nearer_than_by_the_best_filter(simulated, made, parts):
    best = simulated.filters(made)["best of all"]
    gain = simulated.error(best, made.blood) / simulated.error(parts.blood, made.blood)
    assert 20 * np.log10(gain) > 3
    contrasts = (simulated.contrast(S, made.vessels) for S in (parts.blood, best))
    assert np.subtract(*contrasts) > 3
    assert parts.status == "converged"


def test_speckle_that_is_new_in_every_frame_is_no_blood(simulated, made, parts):
    """Where tissue enters a third of the picture; elsewhere it is as it was, and so without blood."""
    rng = np.random.default_rng(0)
    speckle = simulated._unit(simulated._normal(rng, *made.cine.shape))
    cine = made.cine.copy()
    cine[:, :, :16] = speckle[:, :, :16]
    with pytest.warns(lrmc.ConvergenceWarning, match="new in every frame"):
        found = separate(cine)
    assert found.status == "undetermined"
    assert np.linalg.norm(found.blood) < 0.05 * np.linalg.norm(speckle[:, :, :16])
    assert not iq.without_phase(parts.blood)[parts.power > 0].any()
    assert separate(made.tissue + made.noise).status == "converged"


def test_slow_blood_is_not_taken_for_tissue(simulated):
    """It is as strong in slow time as tissue is, but few pixels have it."""
    slow = simulated.scene(8, frames=120, size=48, speed=0.05, blood_to_noise=10)
    found = separate(slow.cine)
    best = simulated.filters(slow)["best of all"]
    assert simulated.error(found.blood, slow.blood) < simulated.error(best, slow.blood)
    beyond = np.linalg.eigvalsh(np.cov(slow.cine.reshape(120, -1)))
    assert found.rank < np.sum(beyond > 2 * np.median(beyond))


def test_blood_within_the_directions_of_tissue_is_given_back(simulated):
    """Strong blood: more of it lies there than the noise hides."""
    strong = simulated.scene(9, frames=120, size=48, clutter=20, blood_to_noise=20)
    found = separate(strong.cine)
    best = simulated.filters(strong)["best of all"]
    errors = (simulated.error(S, strong.blood) for S in (best, found.blood))
    assert 20 * np.log10(np.divide(*errors)) > 3
    outside = strong.tissue - found.tissue
    assert np.linalg.norm(outside) < 0.3 * np.linalg.norm(strong.blood)


def test_tissue_that_moves_more_in_a_few_places_is_no_blood(simulated):
    """A twentieth of the pixels has directions that the median pixel does not have."""
    moved = simulated.scene(1, motion=2, clutter=20, blood_to_noise=10)
    found = separate(moved.cine)
    assert simulated.error(found.blood, moved.blood) < 0.5


def test_doppler_has_the_sign_and_size_of_the_flow(made, parts):
    middle = np.abs(made.frequency) > 0.15
    found = parts.doppler[middle]
    known = ~np.isnan(found)
    assert known.mean() > 0.9
    off = np.abs(found[known] - made.frequency[middle][known])
    assert np.quantile(off, 0.95) < 0.06
    assert_array_equal(np.sign(found[known]), np.sign(made.frequency[middle][known]))
    colors = color_doppler(parts.doppler, parts.power)
    assert colors.shape == (48, 48, 3)
    assert np.all((colors[..., 0] > 0) <= (np.nan_to_num(parts.doppler) > 0))
    assert np.all((colors[..., 2] > 0) <= (np.nan_to_num(parts.doppler) < 0))


def test_without_blood_there_is_next_to_none(made):
    parts = separate((made.tissue + made.noise).astype(np.complex64))
    assert np.mean(parts.blood != 0) < 0.05
    level = np.sqrt(np.mean(np.abs(made.noise) ** 2))
    assert parts.noise == pytest.approx(level, rel=0.1)


def test_a_phase_and_a_unit_do_not_matter(made, parts):
    turned = separate(made.cine * np.complex64(3e4 * np.exp(1j)))
    assert turned.rank == parts.rank
    scale = np.abs(parts.blood).max()
    back = turned.blood / (3e4 * np.exp(1j))
    assert_allclose(back, parts.blood, atol=2e-3 * scale)


def test_naive_projection(made):
    """Tissue is the projection on the basis, pixel by pixel."""
    chosen = np.arange(48 * 48)
    window = iq.taken_apart(made.cine, iq.learned(made.cine, 3, chosen))
    V = window.found.basis
    assert V.shape == (120, 3)
    assert_allclose(V.conj().T @ V, np.eye(3), atol=1e-4)
    for y, x in ((3, 5), (40, 20)):
        series = made.cine[:, y, x]
        by_hand = sum(v * np.vdot(v, series) for v in V.T)
        assert_allclose(window.tissue[:, y, x], by_hand, atol=1e-3)


def test_gaps(simulated, made):
    """Missing entries are NaN in the blood, and change little elsewhere."""
    cine = made.cine.copy()
    hidden = np.random.default_rng(0).random(cine.shape) < 0.05
    cine[hidden] = np.nan
    found = separate(cine)
    assert_array_equal(np.isnan(found.blood), hidden)
    assert np.isfinite(found.tissue).all()
    filled = np.where(hidden, made.blood, found.blood)
    assert simulated.error(filled, made.blood) < 0.7


def test_windows_cover_all_frames_and_fade(simulated):
    for count in (4, 199, 200, 301, 450, 1234):
        spans = iq._spans(count)
        assert spans[0].start == 0
        assert spans[-1].stop == count
        assert all(b.start <= a.stop - 10 for a, b in itertools.pairwise(spans))
    long = simulated.scene(9, frames=320, size=32)
    told = []
    found = separate(long.cine, progress=told.append)
    assert told[-1].total == 2
    best = simulated.filters(long)["best of all"]
    assert simulated.error(found.blood, long.blood) < 0.8 * simulated.error(
        best, long.blood
    )


def test_windows_side_by_side(monkeypatch):
    """The same whatever the threads; those of BLAS keep still where they can be told to."""
    threadpoolctl = pytest.importorskip("threadpoolctl")
    rng = np.random.default_rng(3)
    slow = np.exp(2j * np.pi * np.arange(300)[:, None, None] / 150)
    cine = rng.standard_normal((2, 300, 24, 24)).astype(np.float32)
    cine = (cine[0] + 1j * cine[1] + 30 * slow).astype(np.complex64)
    threads = []

    def tell(_):
        blas = (p for p in threadpoolctl.threadpool_info() if p["user_api"] == "blas")
        threads.extend(p["num_threads"] for p in blas)

    found = []
    for most in (1, 3):
        monkeypatch.setattr(iq, "max_threads", lambda most=most: most)
        found.append(separate(cine, progress=tell))
    monkeypatch.setattr(_extras, "_pools", lambda: None)
    with threadpoolctl.threadpool_limits(1):
        found.append(separate(cine))
    assert set(threads) == {1}
    assert len(iq._spans(300)) == 2
    for other in found[1:]:
        assert_allclose(other.tissue, found[0].tissue, atol=1e-4)
        assert_allclose(other.blood, found[0].blood, atol=1e-4)


@pytest.mark.parametrize(("axis", "beyond"), [(0, "wrap"), (1, "edge"), (2, "edge")])
def test_smoothing_is_that_of_scipy(axis, beyond):
    x = np.random.default_rng(4).random((30, 17, 21)).astype(np.float32)
    mode = {"edge": "nearest", "wrap": "wrap"}[beyond]
    wanted = ndimage.gaussian_filter1d(x, 1.5, axis=axis, mode=mode)
    assert_allclose(flow._smooth(x, 1.5, axis, beyond), wanted, rtol=1e-5)


def test_options_of_real_cines_are_refused(made):
    with pytest.raises(ValueError, match="are for real cines"):
        separate(made.cine, sample=0.5)
    with pytest.raises(ValueError, match="are for real cines"):
        separate(made.cine, outliers="positive")


def test_tissue_without_room_for_blood_is_said():
    rng = np.random.default_rng(0)
    wild = np.exp(
        1j * rng.uniform(0, 6, (12, 1, 1)) * np.arange(1, 1601).reshape(40, 40)
    )
    with pytest.warns(lrmc.ConvergenceWarning, match="directions of slow time"):
        found = separate(wild.astype(np.complex64), rank=8)
    assert found.status == "undetermined"


# ---- files


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    shape = (8, 12, 10)  # frames, height, width
    values = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return values.astype(np.complex64)


def nifti(path, frames, code):
    """Written by hand, as the standard has it: width is the first axis, time the fourth."""
    head = bytearray(352)
    struct.pack_into("<i", head, 0, 348)
    count, height, width = frames.shape
    struct.pack_into("<8h", head, 40, 4, width, height, 1, count, 1, 1, 1)
    struct.pack_into("<2h", head, 70, code, 8 * frames.dtype.itemsize)
    struct.pack_into("<3f", head, 108, 352.0, 1.0, 0.0)
    head[344:348] = b"n+1\0"
    content = bytes(head) + frames.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def test_complex_files(small, tmp_path):
    np.save(tmp_path / "a.npy", small)
    np.savez(tmp_path / "a.npz", IQ=small, rate=np.array(500.0))
    scipy.io.savemat(tmp_path / "a.mat", {"IQ": np.moveaxis(small, 0, -1)})
    nifti(tmp_path / "a.nii", small, 32)
    nifti(tmp_path / "b.nii.gz", small.real.copy(), 16)
    for name in ("a.npy", "a.npz", "a.mat", "a.nii"):
        assert_array_equal(read_cine(tmp_path / name).frames, small)
    assert_array_equal(read_cine(tmp_path / "b.nii.gz").frames, small.real)


def test_hdf5_and_matlab_7_3(small, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["scan/IQ"] = small
        file["rate"] = 500.0
    pairs = np.dtype([("real", "f4"), ("imag", "f4")])
    records = np.empty(small.shape, pairs)
    records["real"], records["imag"] = small.real, small.imag
    with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
        # in MATLAB height x width x frames; on disk the axes are turned round
        file["IQ"] = np.transpose(records, (0, 2, 1))
        file["#refs#/a"] = np.zeros((2, 2))
    text = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM"
    with open(tmp_path / "a.mat", "r+b") as file:
        file.write(text)
    for name in ("a.h5", "a.mat"):
        cine = read_cine(tmp_path / name)
        assert_array_equal(cine.frames, small)
    assert read_cine(tmp_path / "a.h5").suffix == ".npz"


def test_zarr(small, tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.save(str(tmp_path / "a.zarr"), small)
    assert_array_equal(read_cine(tmp_path / "a.zarr").frames, small)


def test_damaged_files_are_told_in_a_sentence(small, tmp_path):
    nifti(tmp_path / "short.nii", small, 32)
    whole = (tmp_path / "short.nii").read_bytes()
    (tmp_path / "short.nii").write_bytes(whole[:500])
    (tmp_path / "none.nii").write_bytes(b"x" * 400)
    (tmp_path / "none.h5").write_bytes(b"x" * 400)
    nifti(tmp_path / "odd.nii", small, 128)
    for name, text in (
        ("short.nii", "ends too early"),
        ("none.nii", "no NIfTI-1 file"),
        ("odd.nii", "type 128"),
        ("none.h5", "could not be read"),
    ):
        with pytest.raises(ValueError, match=text):
            read_cine(tmp_path / name)


def test_what_is_written(made, tmp_path):
    pytest.importorskip("PIL")
    np.savez(tmp_path / "in.npz", IQ=made.cine)
    done = process(tmp_path / "in.npz", tmp_path / "out")
    names = [file.name for file in done.files]
    arrays = ["tissue.npz", "blood.npz", "deviation.npz", "lit.npz"]
    wanted = [*arrays, "power.png", "doppler.png", "report.html"]
    assert names == wanted
    back = read_cine(tmp_path / "out" / "blood.npz")
    assert back.name == "IQ"
    assert back.frames.dtype == np.complex64
    assert_array_equal(back.frames, done.parts.blood)
    assert "Which way it flows" in done.report.read_text()
