"""The fit: expectation (conjugate gradients), weights, noise, and the prior, in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...weights import Array
from .basis import Basis, by_likeness
from .model import Model, there
from .prior import Prior, directions, updated
from .products import product
from .robust import Recurring, weights_of
from .sizes import (
    medians_of_rows,
    medians_of_slots,
    not_too_small,
    relative_sizes,
    typical_rows,
)
from .smooth import reconsidered
from .systems import White, regressed

RANK = 10  # directions that sensors share: variances of those that are not needed die
SWEEPS = 12
SWEEPS_AGAIN = 8  # from an earlier model
SWEEPS_MOVED = 2  # from one of other times
SWEEPS_AFTER = 5  # from the one that told gross errors
FILLED_AFTER = 2  # sweeps: from then on directions are good enough to fill gaps by them
STEADY = 0.04  # by which the noise still changes: these are enough then, but for the first ones
LEAST, LEAST_AGAIN = 5, 2
SIZES_AGAIN = 3  # the sweep after which sizes of residuals are told anew
# of what medians of slots leave: with less to begin with, fewer sweeps come as far
FIRST_NOISE = 0.05
SMALL = 1e-4  # of the noise: residuals of linear systems
MOST_FREE = 0.95  # of the entries that may be taken up by the fit
# in units of the typical residual: of a single day, medians of slots leave none
LEAST_NOISE = 1e-8
BELIEVED = 0.5
SWEEPS_TO_WEIGH = 9  # which entries are gross errors is settled by then
SWEEPS_TO_WEIGH_AGAIN = 3  # from an earlier model
GROSS = 0.01  # chance of being good, below which an entry is left out


def fit(
    Y: Array,
    *,
    robust: bool,
    begin: Model | None = None,
    resize: bool = False,
    seed: int = 0,
) -> Model:
    """A model of Y (sensors x days x slots, NaN where missing).

    A robust one is that of the entries that are no gross errors. From an earlier model of the same
    shape it takes fewer sweeps; sizes are told anew (`resize`) if that was one of other entries."""
    if begin is not None and begin.weights.shape != Y.shape:
        begin = None
    known, sweeps = begin is not None, SWEEPS_AGAIN
    if robust and begin is None:
        begin, sweeps = _weighed(Y, seed), SWEEPS_AFTER
        Y = _without_gross(Y, begin.weights)
    elif robust:
        assert begin is not None
        good = _weights_by(begin, Y, ~np.isnan(Y), Recurring.of(Y))
        Y = _without_gross(Y, good)
    seen = ~np.isnan(Y)
    if begin is None:
        begin, sweeps = first_model(Y, seen), SWEEPS
    begin = replace(begin, weights=seen.astype(Y.dtype))
    return _swept(Y, begin, sweeps, seed, known=known, resize=resize)


def believed(
    Y: Array,
    begin: Model | None = None,
    seed: int = 0,
) -> tuple[Array, Model]:
    """Y (sensors x days x slots), NaN where an entry is a gross error, and the model that tells; from
    an earlier one of the same shape if there is one.

    What is left counts in full: weights between cost more by good entries lost than they gain."""
    model = _weighed(Y, seed, begin)
    good = reconsidered(Y, model.weights, Recurring.of(Y))
    return _without_gross(Y, good), model


def _without_gross(Y: Array, good: Array) -> Array:
    return np.where(good < GROSS, np.nan, Y).astype(Y.dtype)


def _weighed(Y: Array, seed: int, begin: Model | None = None) -> Model:
    """A model whose weights tell gross errors."""
    alike, seen = Recurring.of(Y), ~np.isnan(Y)
    if begin is None or begin.weights.shape != Y.shape:
        begin = first_model(Y, seen, alike)
        return _swept(Y, begin, SWEEPS_TO_WEIGH, seed, alike=alike)
    begin = replace(begin, weights=_weights_by(begin, Y, seen, alike))
    return _swept(Y, begin, SWEEPS_TO_WEIGH_AGAIN, seed, alike=alike, known=True)


def refolded(model: Model, Y: Array, moved: Callable[[Array], Array]) -> Model:
    """A model to begin with for other days and slots of the same times (Y: sensors x days x slots):
    what another one says of all entries, and what it leaves open, moved there."""
    shape, A = Y.shape, model.prior.A
    fitted, unknown = (
        moved(model.units * model.basis.values(there(c))) for c in (model.c, model.draw)
    )
    seen = ~np.isnan(Y)
    rows = model.rows[:, None, None]
    e = np.where(seen, Y - model.middle[:, None, None] - fitted, 0) / rows
    relative, slots = relative_sizes(e.astype(Y.dtype), seen, robust=True)
    usual = typical_rows(Y - model.middle[:, None, None])
    relative = not_too_small(model.rows * relative, usual) / model.rows
    units = rows * relative[:, None, None] * slots
    own = np.ones(shape[1:], Y.dtype)
    found = Model(
        middle=model.middle,
        rows=model.rows * relative,
        slots=slots,
        basis=Basis(np.eye(shape[1], dtype=Y.dtype)),
        prior=Prior(A, own, np.ones((A.shape[1], *own.shape), Y.dtype)),
        noise=model.noise,
        weights=seen.astype(Y.dtype),
    )
    found = _rebased(found, fitted / units, unknown / units)
    moments = there(found.c), there(found.draw)
    return replace(found, prior=updated(None, moments, A, model.noise)[0])


def fit_moved(Y: Array, begin: Model, *, robust: bool) -> Model:
    """The same model at other times: what is known of all times is its prior, and what it says of
    entries does not count."""
    middle = medians_of_rows(Y)  # levels wander
    model = replace(begin, middle=middle)
    model = _settled(Y, model, Recurring.of(Y) if robust else None)
    good = np.where(model.weights > 0, Y, np.nan).astype(Y.dtype)
    return _swept(good, model, SWEEPS_MOVED, 0, known=True)


def of_more_sensors(model: Model, Y: Array, sensors: Array, *, robust: bool) -> Model:
    """A model of all sensors (Y: sensors x days x slots) to begin with, from that of some.

    The others have the sizes that go with their typical values, and directions are what goes along
    with what those shared."""
    middle = medians_of_rows(Y)
    rows = typical_rows(Y - middle[:, None, None])
    rows *= np.median(model.rows / rows[sensors])
    rows[sensors] = model.rows
    A, own, along = model.prior
    shared = model.basis.values(product(A.T, there(model.c)))
    model = replace(model, middle=middle, rows=rows)
    alike = Recurring.of(Y) if robust else None
    entries = (len(Y), -1)
    loadings = regressed(
        shared.reshape(len(shared), -1).T,
        _first_weights(Y, model, alike).reshape(entries).T,
        _in_units(Y, model).reshape(entries).T,
        # entries of orthonormal directions have the variance 1 / sensors
        _beside_shared(model) * len(sensors),
    )
    A = np.linalg.qr(loadings.T)[0]
    more = own.dtype.type(len(Y) / len(sensors))
    prior = Prior(A, own, own + more * (along - own))
    model = replace(model, prior=prior)
    return _settled(Y, model, alike)


def _settled(Y: Array, model: Model, alike: Recurring | None) -> Model:
    """A model with coefficients and weights for these data; all else is as it was."""
    seen = ~np.isnan(Y)
    Z = _in_units(Y, model)
    weights = _first_weights(Y, model, alike)
    model = replace(model, weights=weights, c=None, draw=None)
    if alike is not None:
        model = replace(model, c=_expected(Z, model))
        good = _weights_by(model, Y, seen, alike) >= GROSS
        good = (seen & good).astype(Y.dtype)
        model = replace(model, weights=good)
    return replace(model, c=_expected(Z, model))


def _first_weights(Y: Array, model: Model, alike: Recurring | None) -> Array:
    """Chances of entries to be good by medians of slots; all are, where gross errors are not told."""
    seen = ~np.isnan(Y)
    if alike is None:
        return seen.astype(Y.dtype)
    rest = Y - model.middle[:, None, None]
    rest -= medians_of_slots(rest)[:, None, :]
    e = np.where(seen, rest / model.units, 0).astype(Y.dtype)
    return weights_of(e, seen, alike)


def _in_units(Y: Array, model: Model) -> Array:
    """From the middle of each sensor; 0 where nothing was seen."""
    Z = Y - model.middle[:, None, None]
    return np.nan_to_num(Z / model.units)


def _expected(Z: Array, model: Model) -> Array:
    """The coefficients of values in the model's units."""
    b = model.basis.coefficients(model.weights * Z)
    small = SMALL * model.noise * float(model.weights.sum())
    begin = _filled_in(Z, model) if model.c is None else model.c
    return model.system().solved(b, begin, small=small)


def _filled_in(Z: Array, model: Model) -> Array:
    """Coefficients to begin with: gaps hold what other sensors say of their times.

    Conjugate gradients come to whole days without an entry last, and stop before they are there:
    what is said of such days at the beginning matters most."""
    A, own, along = model.prior
    entries = (len(A), -1)
    w = model.weights.reshape(entries)
    variance = (along - own).mean((1, 2))
    shared = regressed(A, w, Z.reshape(entries), _beside_shared(model) / variance)
    known = np.where(w > BELIEVED, Z.reshape(entries), product(A, shared))
    return model.basis.coefficients(known.reshape(Z.shape))


def _beside_shared(model: Model) -> float:
    """The variance of an entry beside what sensors share."""
    return model.noise + float(model.prior.own.mean())


def _swept(
    Y: Array,
    model: Model,
    sweeps: int,
    seed: int,
    *,
    alike: Recurring | None = None,
    known: bool = False,
    resize: bool = False,
) -> Model:
    """A model after some sweeps, robust ones if it is known which values recur; sizes of a model
    that is `known` are left as they are, or told anew at once."""
    seen = ~np.isnan(Y)
    Y = np.where(seen, Y - model.middle[:, None, None], 0)
    rng = np.random.default_rng(seed)
    white = White.of(rng, Y)
    least = LEAST_AGAIN if known else LEAST
    for k in range(sweeps):
        again = resize and k == 0 if known else k == SIZES_AGAIN
        before = model.noise
        if not known and k == FILLED_AFTER:
            model = replace(model, c=None)
        dealt = white.dealt(rng)
        model = swept(Y, seen, model, dealt, alike, resize=again, rebase=k > 0)
        if k + 1 >= least and abs(np.log(model.noise / before)) < STEADY:
            break
    return model


def _weights_by(begin: Model, Y: Array, seen: Array, alike: Recurring) -> Array:
    """The chances of entries to be good, by how far they are from an earlier model."""
    known = np.where(seen, begin.weights, 0)
    e = np.where(seen, (Y - begin.values()) / begin.units, 0)
    return weights_of(without_itself(e, known, begin.noise), seen, alike)


def first_model(Y: Array, seen: Array, alike: Recurring | None = None) -> Model:
    """Medians of slots, sizes of what is left, and how alike days are in it; robust, as `_swept`."""
    robust = alike is not None
    middle = medians_of_rows(Y)
    Y = Y - middle[:, None, None]
    rows = typical_rows(Y)
    level = medians_of_slots(Y)[:, None, :] / rows[:, None, None]
    E = np.where(seen, Y / rows[:, None, None] - level, 0).astype(Y.dtype)
    w = seen.astype(Y.dtype) if alike is None else weights_of(E, seen, alike)
    relative, slots = relative_sizes(E, seen, robust)
    relative = not_too_small(rows * relative, rows) / rows
    units = relative[:, None, None] * slots
    E, level = E / units, (level / units).astype(Y.dtype)
    basis = _first_basis(E, w)
    power = (basis.coefficients(E * w) ** 2).mean(0)
    low, mean = float(np.median(power)), float(w.mean())
    own = (np.maximum(power - low, 0.05 * low) / mean**2).astype(Y.dtype)
    noise = max(FIRST_NOISE * float((w * E * E).sum() / w.sum()), LEAST_NOISE)
    c = basis.coefficients(level + w * E)
    prior = Prior(
        np.zeros((len(Y), 0), Y.dtype), own, np.zeros((0, *own.shape), Y.dtype)
    )
    model = Model(
        middle=middle,
        rows=rows * relative,
        slots=slots,
        basis=basis,
        prior=prior,
        noise=noise,
        weights=w,
        c=c,
    )
    return replace(model, prior=_prior(model, (c,), fresh=True, robust=robust)[0])


def _first_basis(E: Array, w: Array) -> Basis:
    S, D, _ = E.shape
    if D == 1:
        return Basis(np.ones((1, 1), E.dtype))
    by_day, there = (x.transpose(1, 0, 2).reshape(D, -1) for x in (E * w, w))
    C = (by_day @ by_day.T) / np.maximum(there @ there.T, 1)
    diagonal = np.eye(D, dtype=bool)
    # noise is on the diagonal alone
    C[diagonal] = max(np.quantile(C[~diagonal], 0.9), 0.1 * np.trace(C) / D)
    found = by_likeness(C / np.trace(C) + 1 / D, S)
    return Basis(found.days.astype(E.dtype))


def _prior(
    model: Model,
    moments: tuple[Array, ...],
    *,
    fresh: bool,
    robust: bool,
) -> tuple[Prior, float]:
    """The prior that fits these coefficients, and what of it is noise."""
    spread = np.sqrt(model.prior.own + model.noise / float(model.weights.mean()))
    rank = min(RANK, len(model.rows) // 3)
    A = directions([x / spread for x in moments], rank, model.prior.A)
    before = None if fresh else model.prior
    return updated(before, moments, A, model.noise, held=not robust)


def swept(
    Y: Array,
    seen: Array,
    model: Model,
    white: White,
    alike: Recurring | None,
    *,
    resize: bool,
    rebase: bool,
) -> Model:
    """The next model: in units that follow residuals, and with days by their likeness, if asked."""
    robust = alike is not None
    basis = model.basis
    Z = Y / model.units
    c = _expected(Z, model)
    draw = model.system().drawn(white)
    fitted, unknown = basis.values(c), basis.values(draw)
    e = np.where(seen, Z - fitted, 0)
    left_out = without_itself(e, model.weights, model.noise)
    w = model.weights if alike is None else weights_of(left_out, seen, alike)
    model = replace(
        model, c=c, draw=draw, weights=w, noise=_noise(e, w, unknown, model)
    )
    if resize:
        usual = typical_rows(np.where(seen, Y, np.nan))
        model, gain = _resized(model, left_out, seen, robust, usual)
        fitted, unknown = fitted / gain, unknown / gain
    moved = resize or (rebase and len(basis.days) > 1)
    if moved:
        model = _rebased(model, fitted, unknown)
    moments = there(model.c), there(model.draw)
    prior, flat = _prior(model, moments, fresh=moved, robust=robust)
    return replace(model, prior=prior, noise=model.noise + flat)


def without_itself(e: Array, w: Array, noise: float) -> Array:
    """Residuals from a fit without the entry itself, as far as a mean over all entries tells."""
    pull = (w * e / noise)[w > BELIEVED]
    if not len(pull):  # nothing is believed that could tell
        return e
    left_open = max(1 / max(float(np.mean(pull**2)), 1e-30) - noise, 0.0)
    return e * (1 + left_open * w / noise)


def _noise(e: Array, w: Array, unknown: Array, model: Model) -> float:
    """The variance of good residuals, by the degrees of freedom that the fit leaves."""
    total = float(w.sum())
    free = float((w * unknown**2).sum()) / model.noise / total
    variance = float((w * e * e).sum()) / total / (1 - min(free, MOST_FREE))
    return max(variance, LEAST_NOISE)


def _resized(
    model: Model,
    left_out: Array,
    seen: Array,
    robust: bool,
    usual: Array,
) -> tuple[Model, Array]:
    """The same in units that follow the sizes of residuals, and by what values are divided."""
    rows, slots = relative_sizes(left_out, seen, robust)
    rows = not_too_small(model.rows * rows, usual) / model.rows
    rows /= np.sqrt(np.mean(rows**2) * np.mean(slots**2))
    gain = rows[:, None, None] * slots
    return replace(model, rows=model.rows * rows, slots=model.slots * slots), gain


def _rebased(model: Model, fitted: Array, unknown: Array) -> Model:
    """Days by how alike they are in what is a sensor's own."""
    basis, A = model.basis, model.prior.A
    D = len(basis.days)
    if D > 1:
        x = fitted + unknown
        x = x - product(A, product(A.T, x))
        by_day = x.transpose(1, 0, 2).reshape(D, -1)
        spectrum = (basis.coefficients(x) ** 2).sum((0, 1))
        samples = len(x) * float(spectrum.sum() ** 2 / (spectrum**2).sum())
        found = by_likeness((by_day @ by_day.T).astype(np.float64), samples)
        basis = Basis(found.days.astype(x.dtype))
    c, draw = basis.coefficients(fitted), basis.coefficients(unknown)
    return replace(model, basis=basis, c=c, draw=draw)
