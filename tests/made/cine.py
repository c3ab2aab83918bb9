"""Tissue that breathes and bubbles that flow through it, made up, and DICOM files."""

import numpy as np
from scipy import ndimage

from lrmc.apps.ultrasound import blood

FRAMES, SIZE = 14, 64


def scene(reach=3.0, seed=0):
    """Tissue that breathes by so many pixels, and bubbles that cross it."""
    rng = np.random.default_rng(seed)
    wide = SIZE + 32
    speckle = np.hypot(
        *ndimage.gaussian_filter(rng.standard_normal((2, wide, wide)), (0, 1.5, 1.5))
    )
    speckle *= 0.35 / speckle.mean()
    y, x = np.mgrid[:SIZE, :SIZE] + 16.0
    tissue, bubbles = (
        np.empty((FRAMES, SIZE, SIZE), np.float32),
        np.zeros((FRAMES, SIZE, SIZE), np.float32),
    )
    down, right = (
        reach * np.sin(0.45 * np.arange(FRAMES)),
        0.5 * reach * np.cos(0.3 * np.arange(FRAMES)),
    )
    places, speeds = rng.uniform(8, SIZE - 8, (12, 2)), rng.normal(0, 2.5, (12, 2))
    for t in range(FRAMES):
        tissue[t] = ndimage.map_coordinates(
            speckle, (y + down[t], x + right[t]), order=3
        )
        for place, speed in zip(places, speeds):
            cy, cx = place + speed * (t - FRAMES / 2) + 16
            bubbles[t] += 0.5 * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / 4)
    noise = 0.01 * rng.standard_normal(tissue.shape).astype(np.float32)
    return np.maximum(tissue + noise, 0), bubbles, (down, right)


def slow_blood(rest, outliers, beyond, noise, level):
    """What neighbours say is blood, by SciPy; NaN says nothing."""
    known = np.nan_to_num(rest)
    known = known if outliers == "both" else np.maximum(known, 0)
    found = np.where(np.abs(known) > beyond, known, 0)
    mean, power = (
        ndimage.gaussian_filter(x, (0, width, width), mode="nearest")
        for x, width in ((found, blood.COMMON), (known**2, blood.NEAR))
    )
    shared = 2 * np.maximum(np.abs(mean) - blood.BEYOND_NOISE * noise, 0)
    unwanted = shared**2 + level**2
    signal = np.maximum(power - unwanted, 0)
    return found * signal / (signal + unwanted)


def dicom(path, frames, interpretation="MONOCHROME2", bits=8):
    """A multi-frame ultrasound file, as pydicom writes it; frames (t, h, w) or (t, h, w, 3)."""
    import pydicom
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, generate_uid

    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.3.1"
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=[str(path)])
    content = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    content.SOPClassUID, content.SOPInstanceUID = (
        meta.MediaStorageSOPClassUID,
        meta.MediaStorageSOPInstanceUID,
    )
    content.Modality, content.NumberOfFrames = "US", len(frames)
    content.Rows, content.Columns = frames.shape[1:3]
    content.SamplesPerPixel = 3 if frames.ndim == 4 else 1
    if frames.ndim == 4:
        content.PlanarConfiguration = 0
    content.PhotometricInterpretation = interpretation
    content.BitsAllocated = content.BitsStored = bits
    content.HighBit, content.PixelRepresentation = bits - 1, 0
    content.PixelData = frames.tobytes()
    pydicom.dcmwrite(path, content)
    return path
