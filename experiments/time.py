"""Tables with time: lrmc beside what others would use, over masks and outliers -> docs/time.csv."""

import argparse
import csv
import itertools
import operator
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import lrmc
from lrmc.methods.in_time.gaps import gaps_elsewhere
from lrmc.methods.in_time.simple import filtered, linear, slot_mean

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from real_data import DATA

TARGET = Path(__file__).resolve().parents[1] / "docs" / "time.csv"
TRAFFIC = DATA / "traffic"
TABLES = (  # table, pattern of gaps, share hidden
    *(("metr-la", *gaps) for gaps in (("random", 0.5), ("days", 0.3), ("blocks", 0.3))),
    *(
        ("birmingham", *gaps)
        for gaps in (("random", 0.1), ("random", 0.3), ("days", 0.1), ("days", 0.3))
    ),
    *(
        ("guangzhou", *gaps)
        for gaps in (("random", 0.4), ("days", 0.4), ("blocks", 0.3))
    ),
    ("ngsim", "cars", 0.8),
)
BLOCK = 6  # slots in a row
THETAS = (0.05, 0.1, 0.2, 0.3)  # of LRTC-TNN: chosen by entries set aside
ITERATIONS = 100


def table(name):
    """Sensors x days x slots, NaN where nothing was recorded."""
    if name == "metr-la":
        return (
            np.load(TRAFFIC / "metr_la_week_speed.npz")["speed"]
            .reshape(207, 7, 288)
            .astype(float)
        )
    if name == "birmingham":
        Y = np.load(TRAFFIC / "birmingham_parking.npz")["occupancy"].astype(float)
    elif name == "guangzhou":
        Y = np.load(TRAFFIC / "guangzhou_small_speed.npz")["speed"].astype(float)
    else:
        return np.load(TRAFFIC / "ngsim_speed_field.npz")["speed_full"].astype(float)[
            :, None, :
        ]
    return np.where(Y == 0, np.nan, Y)


def kept(name, shape, pattern, share, seed):
    """Which entries are shown. Seed 0 of Birmingham is the published mask."""
    rng = np.random.default_rng(seed)
    if name == "birmingham" and seed == 0:
        data = np.load(TRAFFIC / "birmingham_parking.npz")
        numbers = (
            data["random_tensor"]
            if pattern == "random"
            else data["random_matrix"][:, :, None]
        )
        return np.broadcast_to(np.round(numbers + 0.5 - share) > 0, shape)
    if pattern == "cars":
        return ~np.isnan(np.load(TRAFFIC / "ngsim_speed_field.npz")["speed_80missing"])[
            :, None, :
        ]
    if pattern == "random":
        return rng.random(shape) >= share
    if pattern == "days":
        return np.broadcast_to((rng.random(shape[:2]) >= share)[:, :, None], shape)
    n = shape[1] * shape[2] // BLOCK
    return np.broadcast_to(
        np.repeat(rng.random(n) >= share, BLOCK).reshape(1, *shape[1:]), shape
    )


def spoiled(Y, share, seed):
    """With gross errors: 0, or the largest value of the table."""
    rng = np.random.default_rng(1000 + seed)
    at = (rng.random(Y.shape) < share) & ~np.isnan(Y)
    values = np.where(rng.random(Y.shape) < 0.5, 0.0, np.nanmax(Y))
    return np.where(at, values, Y)


def tensor_completion(Y, theta, iterations=ITERATIONS):
    """LRTC-TNN (Chen, Yang and Sun 2020) by ADMM; with theta = 0 it is HaLRTC."""
    seen = ~np.isnan(Y)
    Z = np.where(seen, Y, np.nanmean(Y))
    rho = 1e-4 * 100 / max(np.nanstd(Y), 1e-9)
    T = np.zeros((3, *Y.shape))
    for _ in range(iterations):
        rho = min(1.05 * rho, 1e5)
        X = np.stack(
            [shrunk(Z - T[k] / rho, k, 1 / (3 * rho), theta) for k in range(3)]
        )
        Z = np.where(seen, Y, (X + T / rho).mean(0))
        T += rho * (X - Z)
    return X.mean(0)


def shrunk(X, mode, by, theta):
    """Singular values of an unfolding made smaller, but for the first ones."""
    A = np.moveaxis(X, mode, 0)
    shape = A.shape
    A = A.reshape(len(A), -1)
    values, U = np.linalg.eigh(A @ A.T)
    values, U = np.sqrt(np.maximum(values[::-1], 0)), U[:, ::-1]
    less = np.where(np.arange(len(values)) < int(np.ceil(theta * len(values))), 0, by)
    less = less if theta else np.full(len(values), by)
    gain = np.maximum(values - less, 0) / np.maximum(values, 1e-12)
    return np.moveaxis(((U * gain) @ (U.T @ A)).reshape(shape), 0, mode)


def tuned_tnn(Y):
    """LRTC-TNN whose theta entries set aside in the shape of the gaps choose."""
    held = gaps_elsewhere(~np.isnan(flat(Y)), 0, Y.shape[2]).reshape(Y.shape)
    rest = np.where(held, np.nan, Y)
    missed = [np.abs(tensor_completion(rest, t, 40) - Y)[held].mean() for t in THETAS]
    return tensor_completion(Y, THETAS[int(np.argmin(missed))])


def knn(Y):
    """Means of the ten nearest times."""
    from sklearn.impute import KNNImputer

    return (
        KNNImputer(n_neighbors=10, keep_empty_features=True).fit_transform(flat(Y).T).T
    )


def flat(Y):
    """Sensors x times."""
    return Y.reshape(len(Y), -1)


def hampel(Y):
    """Behind a median filter."""
    return filtered(flat(Y))


def ours(Y):
    """As it is called."""
    return lrmc.solve(flat(Y), time="columns").completed()


METHODS = {
    "lrmc": ours,
    "lrmc, time=None": lambda Y: lrmc.solve(flat(Y), time=None).completed(
        undetermined="keep"
    ),
    "linear": lambda Y: linear(flat(Y)),
    "median filter, linear": lambda Y: linear(hampel(Y)),
    "slot mean": lambda Y: slot_mean(flat(Y), Y.shape[2]),
    "KNN": knn,
    "HaLRTC": lambda Y: tensor_completion(Y, 0.0),
    "LRTC-TNN": tuned_tnn,
    "median filter, LRTC-TNN": lambda Y: tuned_tnn(hampel(Y).reshape(Y.shape)),
}


NEEDS_DAYS = {"slot mean", "HaLRTC", "LRTC-TNN", "median filter, LRTC-TNN"}
COLUMNS = (
    "table",
    "gaps",
    "hidden",
    "outliers",
    "mask",
    "method",
    "mape",
    "rmse",
    "cpu_seconds",
)


def cases(args):
    """What is asked for: table, gaps, share hidden, share of outliers, mask."""
    for (name, pattern, share), dirty in itertools.product(TABLES, args.outliers):
        if args.tables and name not in args.tables:
            continue
        if args.gaps and pattern not in args.gaps:
            continue
        only_one = pattern == "cars" and not dirty  # nothing in it is random
        for seed in range(1 if only_one else args.masks):
            yield name, pattern, share, dirty, seed


def problem(name, pattern, share, dirty, seed):
    """The truth, what is shown of it, and where the others are judged."""
    truth = table(name)
    keep = kept(name, truth.shape, pattern, share, seed)
    source = truth
    if pattern == "cars":
        field = np.load(TRAFFIC / "ngsim_speed_field.npz")["speed_80missing"]
        source = field.astype(float)[:, None, :]
    Y = spoiled(np.where(keep, source, np.nan), dirty, seed)
    return truth, Y, ~keep & ~np.isnan(truth) & (truth != 0)


def scored(method, truth, Y, judged):
    """Mean absolute percentage error, root mean square error and seconds of processor time."""
    began = time.process_time()
    found = METHODS[method](Y).reshape(truth.shape)
    seconds = time.process_time() - began
    e, size = (found - truth)[judged], np.abs(truth[judged])
    mape, rmse = 100 * np.mean(np.abs(e) / size), np.sqrt(np.mean(e**2))
    return f"{mape:.3f}", f"{rmse:.4g}", f"{seconds:.1f}"


def shown(path):
    """The table of the page: means over the masks that all methods had, the worst of lrmc in
    brackets.
    """
    rows = list(csv.DictReader(path.open(newline="")))
    methods = [m for m in METHODS if any(x["method"] == m for x in rows)]
    yield f"| table, gaps, hidden, outliers | masks | {' | '.join(methods)} |"
    yield "|---|---|" + "---|" * len(methods)
    key = operator.itemgetter("table", "gaps", "hidden", "outliers")
    for case in dict.fromkeys(map(key, rows)):
        here = [x for x in rows if key(x) == case]
        masks = _common_masks(here)
        of = {
            m: [x for x in here if x["method"] == m and x["mask"] in masks]
            for m in methods
        }
        name, gaps, *shares = case
        hidden, dirty = (f"{float(x):.0%}" for x in shares)
        cells = [_cell(of[m], m == "lrmc") for m in methods]
        title = f"{name}, {gaps}, {hidden}, {dirty}"
        yield f"| {title} | {len(masks)} | {' | '.join(cells)} |"


def _common_masks(rows):
    """Those that every method was run on that was run at all."""
    masks = {}
    for x in rows:
        masks.setdefault(x["method"], set()).add(x["mask"])
    return set.intersection(*masks.values())


def _cell(rows, worst):
    """MAPE / RMSE."""
    if not rows:
        return "-"
    errors = np.array([[float(x["mape"]), float(x["rmse"])] for x in rows])
    mean, most = errors.mean(0), errors.max(0)
    text = f"{mean[0]:.1f} / {mean[1]:.3g}"
    return f"**{text}** ({most[0]:.1f} / {most[1]:.3g})" if worst else text


def main():
    """Run them all; lines are added to the file."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--masks", type=int, default=5)
    asked.add_argument("--outliers", type=float, nargs="*", default=[0.0, 0.05, 0.1])
    asked.add_argument("--tables", nargs="*", default=None)
    asked.add_argument("--gaps", nargs="*", default=None)
    asked.add_argument("--methods", nargs="*", default=list(METHODS))
    asked.add_argument("--output", type=Path, default=TARGET)
    asked.add_argument(
        "--show", action="store_true", help="the table, of what is there"
    )
    args = asked.parse_args()
    if args.show:
        print("\n".join(shown(args.output)))
        return
    warnings.simplefilter("ignore")
    new = not args.output.exists()
    with args.output.open("a", newline="") as file:
        lines = csv.writer(file)
        if new:
            lines.writerow(COLUMNS)
        for case in cases(args):
            given = problem(*case)
            for method in args.methods:
                if case[0] == "ngsim" and method in NEEDS_DAYS:
                    continue
                lines.writerow([*case, method, *scored(method, *given)])
                file.flush()


if __name__ == "__main__":
    main()
