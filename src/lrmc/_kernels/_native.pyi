"""What module.cpp offers. Arrays are contiguous and in the precision of the data, unless said otherwise; those under
"room" are written into. None is converted: another type is a TypeError, another shape a ValueError.
"""

from enum import Enum
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

class Rule(Enum):
    """How a residual becomes a pull: see kernels.hpp."""

    clip = 0
    threshold = 1
    cauchy = 2
    huber = 3
    mixture = 4
    power = 5

class DenseData:
    """Rows of float32, float64, uint8, int16 or uint16, each contiguous; a mask (uint8, not 0 where observed), and
    groups of rows (int64, a group in each line) that are weighed together: by the worst of them, or by their norm
    (modulus), as real and imaginary parts are."""

    def __init__(
        self,
        Y: Array,
        *,
        mask: Array | None = None,
        members: Array | None = None,
        modulus: bool = False,
        gain: float = 1.0,
    ) -> None: ...

class SparseData:
    """The observed entries by row (CSR): indptr of int64, indices of int32, values of the types of `DenseData`."""

    def __init__(
        self,
        *,
        indptr: Array,
        indices: Array,
        values: Array,
        n2: int,
        gain: float = 1.0,
    ) -> None: ...

class Factors:
    """The model L R', all zero if both are missing, and what C and W are multiplied with."""

    def __init__(
        self,
        *,
        L: Array | None = None,
        R: Array | None = None,
        P: Array | None = None,
        Q: Array | None = None,
        Pw: Array | None = None,
        Qw: Array | None = None,
    ) -> None: ...

class Weight:
    """A rule with its numbers: the others than clip have a threshold for each row and column, and what is protected."""

    def __init__(
        self,
        rule: Rule,
        *,
        z: float = 0.0,
        rows: Array | None = None,
        cols: Array | None = None,
        protect_rows: Array | None = None,
        protect_cols: Array | None = None,
        up: float = 1.0,
        down: float = 1.0,
        squares: bool = False,
        rough: bool = False,
    ) -> None: ...

class Room:
    """Zeros, one array for each factor that is asked about; one number of inliers for the rule clip, and sums by row
    and column for the others. Counts are int64, energies float64; z_slope is one float64, for the adjoint."""

    def __init__(
        self,
        *,
        CQ: Array | None = None,
        CtP: Array | None = None,
        WQ: Array | None = None,
        WtP: Array | None = None,
        inliers: Array | None = None,
        row_inliers: Array | None = None,
        col_inliers: Array | None = None,
        row_weight: Array | None = None,
        col_weight: Array | None = None,
        row_energy: Array | None = None,
        col_energy: Array | None = None,
        z_slope: Array | None = None,
    ) -> None: ...

class Regression:
    """A model of rows, for a smooth rule; mean and prior are float64."""

    def __init__(
        self,
        rule: Rule,
        *,
        V: Array,
        offset: Array,
        mean: Array,
        prior: Array,
        widest: float,
        lowest: float,
        odds: float,
        reach: float,
        up: float = 1.0,
        down: float = 1.0,
    ) -> None: ...

def products(
    data: DenseData | SparseData,
    factors: Factors,
    weight: Weight,
    room: Room,
    *,
    threads: int,
) -> None: ...
def adjoint(
    data: DenseData | SparseData,
    factors: Factors,
    room: Room,
    *,
    zeta: float,
    threads: int,
) -> None:
    """P and Q are the gradients of C R and C' L; CQ, CtP and z_slope become those of L, R and zeta."""

def magnitudes(
    data: DenseData | SparseData,
    factors: Factors,
    *,
    row_k: Array,
    col_k: Array,
    rows: Array,
    cols: Array,
    threads: int,
) -> None:
    """The k-th largest |residual| of each row and column, with int64 counts; rows and cols are room."""

def regress(
    data: DenseData | SparseData,
    model: Regression,
    *,
    scores: Array,
    deviation: Array,
    distance: Array,
    threads: int,
) -> None:
    """Scores, deviation and distance are room."""

def slopes(
    data: SparseData,
    factors: Factors,
    weight: Weight,
    room: Room,
    *,
    L: Array,
    R: Array,
    rows: Array,
    cols: Array,
    shape: Array,
    energy: float,
    total: float,
    threads: int,
) -> None:
    """The adjoint of a pass with the rule power: see slopes.hpp. L, R, rows, cols and shape, the last three of float64,
    are room; CQ and WQ, or CtP and WtP, are made where there is room for them."""

def residual(
    data: SparseData, factors: Factors, *, out: Array, threads: int
) -> None: ...
def survey(data: DenseData, *, rows: Array, cols: Array, threads: int) -> int:
    """Adds what is observed to the int64 counts, and returns how many of these entries are infinite."""

def compress(
    data: DenseData, *, indptr: Array, indices: Array, values: Array, by_column: bool
) -> None:
    """Indptr is int64 and says where the entries of each row (column) go; indices (int32) and values are room."""

def locate(
    *, indptr: Array, indices: Array, rows: Array, cols: Array, out: Array
) -> None: ...
def solve_rows(
    H: Array,
    B: Array,
    *,
    ridge: Array,
    used: Array,
    X: Array,
    mean_inverse: Array | None = None,
    threads: int,
) -> None:
    """X is room, and so is mean_inverse, which like the ridge is float64."""

class RowStep:
    """The rows F of a factor with what their systems are made of: used is uint8; precision, mean, ridge and coupling
    are float64, the last two symmetric. See kernels.hpp."""

    def __init__(
        self,
        *,
        F: Array,
        pull: Array | None = None,
        grams: Array,
        used: Array,
        precision: Array,
        mean: Array,
        ridge: Array,
        coupling: Array,
        eta: float,
    ) -> None: ...

def step_rows(
    rows: RowStep, *, after: Array, step: Array, inverse: Array, threads: int
) -> None:
    """After, step and inverse (float64) are room."""

def slope_rows(
    rows: RowStep,
    *,
    step: Array,
    of_after: Array,
    of_inverse: Array,
    pull: Array,
    grams: Array,
    F: Array,
    mean: Array,
    ridge: Array,
    coupling: Array,
    threads: int,
) -> None:
    """The adjoint of `step_rows`: of_after and of_inverse (float64) are what it is given, and step; the rest is room,
    of float64 but for pull and grams."""

def regressors(
    F: Array,
    *,
    precision: Array,
    coupling: Array,
    plain: Array,
    squares: Array,
    threads: int,
) -> None:
    """Plain and squares are room; precision and coupling are float64."""

def regressor_slopes(
    F: Array,
    *,
    precision: Array,
    pull: Array,
    grams: Array,
    of_F: Array,
    coupling: Array,
    threads: int,
) -> None:
    """The adjoint of `regressors`: of_F and coupling (float64) are room."""

def entries_at(
    L: Array,
    R: Array,
    *,
    rows: Array,
    cols: Array,
    out: Array,
    values: Array | None = None,
) -> None:
    """Rows and cols are int64; out is room. With values: how far these are from the model."""

def ordered(x: Array, *, places: Array, out: Array) -> None:
    """The numbers at these places (int64, rising) of the order of all; out is room for float64."""

def invert_rows(
    H: Array,
    *,
    ridge: Array,
    used: Array,
    inverses: Array,
    threads: int,
) -> None:
    """As `solve_rows`, with the inverses themselves, packed as H is."""

def times_rows(H: Array, B: Array, *, scale: Array, X: Array) -> None:
    """Packed symmetric matrices H_i times the rows B_i, and scale_i (float64); X is room."""

def survey_entries(indices: Array, values: Array, *, cols: Array) -> tuple[int, int]:
    """Adds up how many numbers each column has (indices int32, cols int64); how many entries are NaN, and infinite."""

class Layer:
    """What half a layer on noisy data is given; 0 for `size` or `relative`: to be measured."""

    def __init__(
        self,
        *,
        side: int,
        reach: float,
        shape: float,
        prior: float,
        kappa: float,
        eta: float,
        row_noise: Array,
        col_noise: Array,
        observed: Array,
        unknown_L: Array,
        unknown_R: Array,
        rows: Array,
        cols: Array,
        values: Array,
        every: int,
        size: float,
        relative: float,
        least: float,
        tiny: float,
        up: float,
        down: float,
    ) -> None: ...

class LayerRoom:
    """Where half a layer writes."""

    def __init__(
        self,
        *,
        pull: Array,
        grams: Array,
        after: Array,
        step: Array,
        col_weight: Array,
        mean: Array,
        covariance: Array,
        ridge: Array,
        unknown: Array,
    ) -> None: ...

def refit(
    data: DenseData | SparseData,
    factors: Factors,
    layer: Layer,
    room: LayerRoom,
    *,
    threads: int,
    row_threads: int,
) -> tuple[float, float, float, float, int]:
    """One factor given the other; returns size, variance, relative, energy, and how many inliers."""

def settle(
    data: DenseData | SparseData,
    factors: Factors,
    layer: Layer,
    *,
    numbers: Array,
    side: int,
    col_observed: Array,
    L: Array,
    R: Array,
    unknown_L: Array,
    unknown_R: Array,
    most_again: int,
    falling: float,
    threads: int,
    row_threads: tuple[int, int],
) -> tuple[float, float]:
    """Halves of layers for one side and the other in turn, from the factors into L and R; returns
    the variance and the sum of weights of the last one.
    """

def levels(
    data: DenseData | SparseData,
    *,
    at_rows: Array,
    at_cols: Array,
    values: Array,
    rows: Array,
    cols: Array,
    middle: float,
    scale: float,
    reach: float,
    rounds: int,
    threads: int,
) -> None:
    """What rows and columns add to each other, where they begin and end."""

def gaps(
    Y: Array,
    *,
    mean: Array,
    precision: Array,
    complete: Array,
    unknown: Array | None = None,
    told: Array | None = None,
) -> None:
    """What the rest of a row says of its gaps (NaN); the last three are room."""

def normal(
    Y: Array,
    *,
    complete: Array,
    mean: Array,
    covariance: Array,
    rounds: int,
    tiny: float,
    alone: float,
) -> None:
    """The distribution of rows with gaps (NaN), beginning with `complete`; the last arrays are room."""

def nearest(
    Z: Array,
    among: Array,
    *,
    which: Array,
    apart: Array,
    own: bool,
) -> None:
    """The nearest rows, and squares of distances, into the last two; `own`: Z is among itself."""

def among(
    values: Array,
    which: Array,
    *,
    rows: Array,
    cols: Array,
    sums: Array,
    total: Array,
    counts: Array | None = None,
) -> None:
    """Of the neighbors of these rows in these columns, sums of count times value, and of counts."""

def mixture(
    error: Array,
    toward: Array,
    *,
    weights: Array,
    bend: float,
    equal: float,
    rounds: int,
) -> None:
    """Weights of a fit and of what others say beside it, of least loss; `weights` is room."""

def tails(
    power: Array,
    densities: Array,
    *,
    gross: Array,
    p: float,
    q: float,
    peak: float,
    most_share: float,
    settled: float,
    rounds: int,
) -> tuple[float, float]:
    """The unit of good residuals, whose p-th powers are float32, and the mean logarithm of the
    likelihood; `gross` (float64) has the first shares of gross errors, and is given the last.
    """

def two_groups(
    squares: Array,
    *,
    deviation: float,
    share: float,
    widest: float,
    fewest: float,
    settled: float,
    rounds: int,
    fixed: bool,
) -> tuple[float, float, float]:
    """The deviation of noise, the odds of an outlier at 0 and the share of noise, from squares of sizes."""

def times(X: Array, S: Array, *, out: Array) -> None:
    """X S for a long X and few columns; out is room."""

def cross(X: Array, Z: Array, *, out: Array) -> None:
    """Adds X' Z to `out`, which is float64."""

def observed_at(
    data: DenseData,
    *,
    rows: Array,
    cols: Array,
    out_rows: Array,
    out_cols: Array,
    values: Array,
) -> int:
    """Those of some places that are observed, into the beginning of the room: how many."""

def most_frequent(x: Array) -> tuple[float, int]:
    """The value that is found most often, the least of several, and how often; 0 without any."""

most_loop_rank: int

class LoopLines:
    """What stays with the rows, or the columns, from one step of the closed loop to the next."""

    def __init__(
        self,
        *,
        momentum: Array,
        observed: Array,
        multiple: Array,
        FF: Array,
        before: Array,
        H: Array | None,
        full: Array | None,
    ) -> None: ...

class LoopPass:
    """What a pass was made with, of rows or columns, and what it gave: the pull is overwritten."""

    def __init__(
        self,
        *,
        F: Array,
        pull: Array,
        after: Array,
        weight: Array,
        inliers: Array,
        grams: Array | None,
        ridge: float,
        floor: float,
    ) -> None: ...

class LoopSample:
    """The entries that thresholds are taken from, and the rows that tell what is typical."""

    def __init__(
        self, *, rows: Array, cols: Array, values: Array, judged: Array | None
    ) -> None: ...

class LoopRules:
    """The numbers of the closed loop: see `lrmc.methods.thresholds`."""

    def __init__(
        self,
        *,
        good: float,
        high: float,
        widest: float,
        above: float,
        fastest: float,
        least: float,
        longest: float,
        behind: float,
        half: float,
        widen: float,
        narrow: float,
        far: float,
    ) -> None: ...

class LoopTold:
    """What a step tells: the next threshold, how far it went, and how far lines are behind."""

    zeta: float
    low: float
    moved: float
    change: float
    gap: float
    row_widest: float
    row_far: float
    col_widest: float
    col_far: float

def loop_step(
    rows: LoopLines,
    cols: LoopLines,
    of_rows: LoopPass,
    of_cols: LoopPass,
    sample: LoopSample,
    rules: LoopRules,
    *,
    zeta: float,
    decay: float,
    inliers: float,
    momentum: float,
    threads: int,
) -> LoopTold:
    """What follows a pass of the closed loop, at once."""

most_layer_rank: int

def layer_rows(
    L: Array,
    *,
    pull: Array,
    momentum: Array | None,
    scale: Array,
    shared: Array | None,
    after: Array,
    direction: Array | None,
    DD: Array,
    DL: Array,
    eta: float,
    gamma: float,
) -> None:
    """A layer of LRMC for the rows of a factor: see kernels.hpp. Overwrites pull; DD and DL are zeros in float64."""

def consensus(
    *,
    indptr: Array,
    indices: Array,
    values: Array,
    G: Array,
    F: Array,
    agreeing: Array,
    border: float,
    draws: int,
    seed: int,
    threads: int,
) -> None:
    """F is where the lines begin, and room; agreeing is room."""

def newton(
    *,
    indptr: Array,
    indices: Array,
    errors: Array,
    weights: Array,
    U: Array,
    V: Array,
    step: Array,
    ridge: float,
    tol: float,
    most: int,
) -> int:
    """Step is room; returns how many iterations there were."""

most_small_rank: int

def small(
    data: list[DenseData],
    *,
    L: list[Array],
    R: list[Array],
    random: Array,
    report: Array,
    trace: Array,
    lowest: int,
    tol: float,
    pace: dict[str, float],
    proof: dict[str, float],
    threads: int,
) -> None:
    """L and R (float64, as many columns as `random`), report (a line of 11 numbers for each matrix: `SmallReport`) and
    trace (matrices x sweeps x 4) are room."""

class Steps:
    def __init__(
        self,
        *,
        zeta: Array,
        eta: Array,
        momentum: Array,
        goes_on: bool,
        relative: bool,
        tangent: bool,
        zeta_0: float,
        start_gain: float,
    ) -> None:
        """Numbers of layers (float64); a negative `start_gain` is 1 / p."""

def layers(
    data: list[DenseData],
    steps: Steps,
    *,
    L: list[Array],
    R: list[Array],
    random: Array,
    places: Array | None = None,
    all_up_to: float,
    scales: Array,
    report: Array,
    trace: Array,
    tol: float,
    blown_up: float,
    few_inliers: float,
    threads: int,
) -> None:
    """Matrices of one shape and precision. L, R (in this precision), report (a line of 7 numbers for each matrix:
    `LayersReport`) and trace (matrices x layers x 4) are room. Where a scale is 0, it is the median of all entries, if
    no more than `all_up_to` are observed, and else of those at `places` (rows and columns, by row)."""

def read_once(X: Array, threads: int) -> int: ...
def instruction_set() -> str: ...
def instruction_sets() -> list[str]: ...
def use_instruction_set(name: str) -> None: ...
def max_threads() -> int: ...
def most_threads() -> int: ...
def follow(
    frames: Array,
    levels: list[list[Array]],
    *,
    halved: int,
    block: int,
    rounds: int,
    settled: float,
    rejection: float,
    grey: float,
    ridge: float,
    longest: float,
    down: Array,
    right: Array,
    threads: int,
) -> None:
    """Displacements of frames, on the grid of the finest level, into down and right. A level is a
    reference, what is free of it, and the windows down and across."""

def onto_canvas(
    frames: Array,
    down: Array,
    right: Array,
    *,
    block: int,
    margin: int,
    hidden: Array | None = None,
    out: Array,
    seen: Array,
    threads: int,
) -> None:
    """Frames where the reference has what they show, by cubic splines; out and seen are room."""

def from_canvas(
    canvases: Array,
    down: Array,
    right: Array,
    *,
    block: int,
    margin: int,
    out: Array,
    threads: int,
) -> None:
    """The way back; out is room."""

def shrink(
    rest: Array,
    near: Array,
    common: Array,
    *,
    both: bool,
    sign: float,
    beyond: float,
    allowed: float,
    level: float,
    out: Array,
    threads: int,
) -> None:
    """What of residuals is blood, shrunk by what is near and by what a wide window has in common, into
    out."""

def noise_levels(
    rest: Array, tissue: Array, *, least: float, report: Array, threads: int
) -> None:
    """Of each frame: how many residuals are dark, the sum of their squares, how many change, and the
    tissue there."""

def lasting(
    blood: Array, *, brightest: int, power: Array, lasting: Array, threads: int
) -> None:
    """The mean square of each pixel over time, and that without its brightest frames."""

def patches(
    frames: Array,
    seen: Array,
    places: Array,
    *,
    least: float,
    both: bool,
    told_by: int,
    rounds: int,
    settled: float,
    overlap: int,
    model: Array,
    report: Array,
    threads: int,
) -> None:
    """The tissue of patches, blended, into model; a line of report has the pixels that change, their
    entries, whether these were enough, sweeps, the last change, and the noise."""

def clean(found: Array, *, near: int, gap: int, out: Array) -> None:
    """Masks without what is small, by a majority of near x near pixels, gaps closed; out is room."""

def any_in(mask: Array, size: int, *, out: Array) -> None:
    """Whether any pixel of each window of masks is set; borders are repeated, out is room."""

def all_in(mask: Array, size: int, *, out: Array) -> None:
    """Whether all pixels are."""

def connected(mask: Array, least: int, *, out: Array) -> None:
    """Pixels that hang together, corners too, in no fewer than so many; out is room."""

def distances(
    frames: Array,
    behind: Array,
    mix: Array | None = None,
    *,
    light: float = 1.0,
    out: Array,
) -> None:
    """How far frames (count x height x width x colours) are from what is behind them; out is room.

    With mix, brightness alone counts `light` times, and colours where they are far for their
    surroundings."""

def masks(
    frames: Array,
    behind: Array,
    mix: Array | None = None,
    *,
    light: float,
    threshold: float,
    sways: Array | None = None,
    near: int,
    gap: int,
    edges: Array,
    numbers: tuple[int, float, float, float],
    taken: float,
    ratios: Array | None = None,
    out: Array,
) -> None:
    """What is farther than the threshold (or than sways) from what is behind, cleaned, without the
    shadows that ratios name; numbers are the size of windows, the noise, candidates and tint."""

def add_slopes(
    frame: Array,
    behind: Array,
    mask: Array,
    *,
    edges: Array,
    numbers: tuple[int, float, float, float],
    alike: float,
    texture: float,
    sums: Array,
) -> None:
    """What a frame says about shadows is added to sums."""

def note(
    frame: Array,
    behind: Array,
    off: Array,
    mask: Array,
    *,
    least: int,
    room: int,
    threshold: float,
    farthest: Array,
    seen: Array,
    sums: Array,
    squares: Array,
    count: Array,
) -> None:
    """How far pixels go where no thing of at least so many pixels is near, and sums of differences
    where nothing is in front."""

def near_background(
    frames: Array,
    V: Array,
    scores: Array,
    *,
    colours: int,
    reach: float,
    out: Array,
) -> None:
    """In how many frames a pixel is nearer than reach to the background; out is room."""

def part_medians(
    frames: Array,
    V: Array,
    scores: Array,
    ends: list[int],
    *,
    out: Array,
) -> None:
    """Medians of frames less their background in parts of the frames; out is room."""

def byte_medians(rows: Array, *, step: int, before: Array, out: Array) -> None:
    """The value of each column that has so many before it, in every so many rows; out is room."""

def smooth(picture: Array, weights: list[float], *, out: Array) -> None:
    """A picture times a window in both directions, weights from its middle on; out is room."""

def tile_sums(one: Array, other: Array, *, out: Array) -> None:
    """Products of how the mean of two pictures changes and of their difference, over tiles; out is room."""

def mix(x: Array, y: Array, *, a: float, b: float) -> None:
    """x = a x + b y, of three axes each."""

def add(x: Array, y: Array, *, toward: Array, times: Array | None = None) -> float:
    """x += times y (times: without the first axis), and the product of x and `toward`."""
