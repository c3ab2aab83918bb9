"""Small files of every kind that a command reads, with the command and what it writes."""

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

Y = np.random.default_rng(0).standard_normal((9, 2)) @ np.random.default_rng(
    1
).standard_normal((2, 7))
Y[2, 3] += 20
GAPS = np.where(np.random.default_rng(2).random(Y.shape) < 0.1, np.nan, Y)
FRAMES = np.clip(np.random.default_rng(3).normal(100, 3, (6, 16, 16)), 0, 255).astype(
    np.uint8
)


@dataclass(frozen=True)
class Kind:
    """One kind of file. `make` writes into a folder and returns what the command is given."""

    make: Callable[[Path], Any]
    command: tuple[str, ...]  # IN and OUT stand for what was made, and for the output
    output: str  # what OUT is called
    needs: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # other outputs, all there if OUT is


def table(suffix):
    def make(folder):
        import pandas

        frame = pandas.DataFrame(GAPS, columns=[f"day {j}" for j in range(7)])
        frame.insert(0, "name", [f"row {i}" for i in range(9)])
        path = folder / f"in.{suffix}"
        frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
        return path

    return make


def npy(folder, X=GAPS):
    np.save(folder / "in.npy", X)
    return folder / "in.npy"


def npz(folder):
    np.savez_compressed(folder / "in.npz", X=Y, mask=~np.isnan(GAPS))
    return folder / "in.npz"


def sparse_npz(folder):
    sp.save_npz(folder / "in.npz", sp.csr_array(np.nan_to_num(GAPS)))
    return folder / "in.npz"


def mat(folder):
    scipy.io.savemat(
        folder / "in.mat",
        {"X": GAPS, "note": "text", "S": sp.csc_array(np.eye(3))},
        do_compression=True,
    )
    return folder / "in.mat"


def mtx(folder):
    scipy.io.mmwrite(folder / "in.mtx", sp.coo_array(np.nan_to_num(GAPS)))
    return folder / "in.mtx"


def zarr_store(version):
    def make(folder):
        import zarr

        path = folder / "in.zarr"
        zarr.create_array(
            path, shape=Y.shape, dtype=Y.dtype, chunks=(4, 7), zarr_format=version
        )[:] = GAPS
        return path

    return make


def hdf5(folder):
    import h5py

    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("X", data=GAPS, chunks=(4, 7), compression="gzip")
    return folder / "in.h5"


def resume(folder):
    npy(folder)
    iterate = {
        "format": "lrmc-iterate",
        "k": 2,
        "zeta": 1.0,
        "change": 0.1,
        "stage": "exact",
        "scaled": False,
    }
    L, R = np.ones((9, 2)), np.ones((7, 2))
    import json

    np.savez(
        folder / "out.npy.resume.npz", about=np.array(json.dumps(iterate)), L=L, R=R
    )
    return folder / "in.npy"


def schedule(folder):
    import lrmc

    npy(folder)
    lrmc.Schedule.named("geometric").save(folder / "mine.json")
    return folder / "in.npy"


def clip(codec, suffix):
    def make(folder):
        import av

        with av.open(str(folder / f"in.{suffix}"), "w") as container:
            stream = container.add_stream(codec, rate=25)
            stream.height = stream.width = 16
            stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
            for frame in FRAMES:
                for packet in stream.encode(
                    av.VideoFrame.from_ndarray(frame, format="gray")
                ):
                    container.mux(packet)
            for packet in stream.encode(None):
                container.mux(packet)
        return folder / f"in.{suffix}"

    return make


def pictures(suffix, people=("",)):
    def make(folder):
        from PIL import Image

        for person in people:
            (folder / "in" / person).mkdir(parents=True, exist_ok=True)
            for k, frame in enumerate(FRAMES):
                Image.fromarray(frame).save(folder / "in" / person / f"{k}.{suffix}")
        return folder / "in"

    return make


def background(folder):
    from lrmc.apps.video.model import learn

    pictures("png")(folder)
    learn(FRAMES.reshape(len(FRAMES), -1).astype(np.float32), FRAMES.shape[1:]).save(
        folder / "model.npz"
    )
    return folder / "in"


def scenes(folder):
    from made.landscape import landscape, write_landscape

    return write_landscape(folder, landscape(5, 12, 12))


def scenes_zarr(folder):
    import xarray
    from made.landscape import landscape

    made = landscape(5, 12, 12)
    array = xarray.DataArray(
        made.data, dims=("time", "band", "y", "x"), attrs={"nodata": 0}, name="scene"
    )
    array.to_dataset().to_zarr(folder / "in.zarr", consolidated=False, zarr_format=2)
    return folder / "in.zarr"


def cine(suffix):
    def make(folder):
        path = folder / f"in.{suffix}"
        if suffix == "npy":
            np.save(path, FRAMES)
        elif suffix == "npz":
            np.savez_compressed(path, frames=FRAMES)
        elif suffix == "mat":
            scipy.io.savemat(path, {"frames": np.moveaxis(FRAMES, 0, -1)})
        else:
            dicom(path)
        return path

    return make


def dicom(path):
    import pydicom
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian

    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = (
        "1.2.840.10008.5.1.4.1.1.3.1",
        "1.2.3",
    )
    content = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    content.SOPClassUID, content.SOPInstanceUID = (
        meta.MediaStorageSOPClassUID,
        meta.MediaStorageSOPInstanceUID,
    )
    content.Modality, content.NumberOfFrames = "US", len(FRAMES)
    content.Rows, content.Columns = FRAMES.shape[1:]
    content.SamplesPerPixel, content.PhotometricInterpretation = 1, "MONOCHROME2"
    (
        content.BitsAllocated,
        content.BitsStored,
        content.HighBit,
        content.PixelRepresentation,
    ) = 8, 8, 7, 0
    content.PixelData = FRAMES.tobytes()
    pydicom.dcmwrite(path, content)


def partial(folder):
    """A checkpoint as `lrmc train` leaves it."""
    from lrmc.synthetic import Problems
    from lrmc.training import train

    def stop(state):
        if state.stage == "refine" and state.step >= 1:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        train(
            Problems(**PROBLEM),
            2,
            layers=2,
            steps=2,
            model="fnn",
            checkpoint=folder / "out.json.partial",
            progress=stop,
        )
    return folder


PROBLEM = {"n": 20, "p": 0.8}
TRAINED = ("--rank", "2", "--layers", "2", "--steps", "2", "--model", "fnn")
COMPLETE = ("complete", "IN", "-o", "OUT", "--max-iter", "5")
BRIEF = (*COMPLETE, "--no-report", "--no-outliers-file")
KINDS = {
    "npy": Kind(npy, COMPLETE, "out.npy", (), ("out.outliers.csv", "out.report.html")),
    "npz": Kind(npz, BRIEF, "out.npz"),
    "sparse npz": Kind(sparse_npz, BRIEF, "out.npy"),
    "csv": Kind(table("csv"), BRIEF, "out.csv", ("pandas",)),
    "parquet": Kind(table("parquet"), BRIEF, "out.parquet", ("pandas", "pyarrow")),
    "mat": Kind(mat, (*BRIEF, "--name", "X"), "out.mat"),
    "mtx": Kind(mtx, BRIEF, "out.mtx"),
    "zarr 2": Kind(zarr_store(2), BRIEF, "out.zarr", ("zarr",)),
    "zarr 3": Kind(zarr_store(3), BRIEF, "out.npy", ("zarr",)),
    "hdf5": Kind(hdf5, BRIEF, "out.npy", ("h5py", "h5netcdf", "xarray")),
    "npy in blocks": Kind(npy, (*BRIEF, "--memory", "1MB"), "out.npy"),
    "resume": Kind(resume, (*BRIEF, "--memory", "1MB", "-r", "2"), "out.npy"),
    "schedule": Kind(
        schedule, (*BRIEF, "-r", "2", "--schedule", "FOLDER/mine.json"), "out.npy"
    ),
    "train npy": Kind(
        npy, ("train", "--data", "IN", "-o", "OUT", *TRAINED), "out.json"
    ),
    "partial": Kind(
        partial, ("train", "--n", "20", "--p", "0.8", "-o", "OUT", *TRAINED), "out.json"
    ),
    "mp4": Kind(clip("libx264", "mp4"), ("video", "IN", "-o", "OUT"), "out", ("av",)),
    "avi": Kind(clip("mjpeg", "avi"), ("video", "IN", "-o", "OUT"), "out", ("av",)),
    "pictures": Kind(
        pictures("png"), ("video", "IN", "-o", "OUT", "--grey"), "out", ("av", "PIL")
    ),
    "model": Kind(
        background,
        ("video", "IN", "-o", "OUT", "--model", "FOLDER/model.npz"),
        "out",
        ("av", "PIL"),
    ),
    "tif": Kind(scenes, ("clouds", "IN", "-o", "OUT", "-r", "1"), "out", ("rasterio",)),
    "scenes": Kind(
        scenes_zarr,
        ("clouds", "IN", "-o", "OUT", "-r", "1"),
        "out",
        ("zarr", "xarray", "rasterio"),
    ),
    "cine npy": Kind(cine("npy"), ("ultrasound", "IN", "-o", "OUT"), "out"),
    "cine npz": Kind(cine("npz"), ("ultrasound", "IN", "-o", "OUT"), "out"),
    "cine mat": Kind(cine("mat"), ("ultrasound", "IN", "-o", "OUT"), "out"),
    "dicom": Kind(cine("dcm"), ("ultrasound", "IN", "-o", "OUT"), "out", ("pydicom",)),
    "faces": Kind(
        pictures("png", ("anna", "bert")),
        ("faces", "IN", "-o", "OUT", "-r", "1"),
        "out",
        ("PIL",),
    ),
    "faces jpg": Kind(
        pictures("jpg"), ("faces", "IN", "-o", "OUT", "-r", "1"), "out", ("PIL",)
    ),
    "faces tif": Kind(
        pictures("tif"), ("faces", "IN", "-o", "OUT", "-r", "1"), "out", ("PIL",)
    ),
}


# ---- only what reads them


def read_table(path):
    from lrmc.complete import tables

    return tables.read(path, name="X" if path.suffix == ".mat" else None)


def read_store(path):
    from lrmc.observations.ondisk import blocks
    from lrmc.observations.stores import opened

    return blocks(opened(path), memory="1MB")


def read_cine(path):
    from lrmc.apps.ultrasound.cines import read_cine

    return read_cine(path)


def read_clip(path):
    from lrmc.apps.video.clips import Clip

    return list(Clip.open(path).frames())


def picture(suffix):
    def make(folder):
        return pictures(suffix)(folder) / f"0.{suffix}"

    return make


def read_picture(path):
    from lrmc.apps.pictures import read_picture

    return read_picture(path, "faces")


def read_scene(path):
    from lrmc.apps.clouds.scenes import read_scenes

    return read_scenes([path])


def a_result(folder):
    import lrmc

    path = folder / "result.npz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lrmc.solve(Y, 2).save(path)
    return path


def load_result(path):
    import lrmc

    return lrmc.Result.load(path)


def a_schedule(folder):
    schedule(folder)
    return folder / "mine.json"


def load_schedule(path):
    import lrmc

    return lrmc.Schedule.load(path)


READERS = {
    "npy": (npy, read_table, ()),
    "npz": (npz, read_table, ()),
    "sparse npz": (sparse_npz, read_table, ()),
    "csv": (table("csv"), read_table, ("pandas",)),
    "parquet": (table("parquet"), read_table, ("pandas", "pyarrow")),
    "mat": (mat, read_table, ()),
    "mtx": (mtx, read_table, ()),
    "npy in blocks": (npy, read_store, ()),
    "hdf5": (hdf5, read_store, ("h5py", "h5netcdf", "xarray")),
    "result": (a_result, load_result, ()),
    "schedule": (a_schedule, load_schedule, ()),
    "mp4": (clip("libx264", "mp4"), read_clip, ("av",)),
    "avi": (clip("mjpeg", "avi"), read_clip, ("av",)),
    "cine npz": (cine("npz"), read_cine, ()),
    "cine mat": (cine("mat"), read_cine, ()),
    "dicom": (cine("dcm"), read_cine, ("pydicom",)),
    "scene": (scenes, read_scene, ("rasterio",)),
    **{
        suffix: (picture(suffix), read_picture, ("PIL",))
        for suffix in ("png", "jpg", "tif", "bmp", "gif", "webp", "pgm")
    },
}
