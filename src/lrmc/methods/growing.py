"""Where the layers for noisy data begin: a state that grows from rank 1."""

from __future__ import annotations

import numpy as np

from .._rows import beside, times, turned
from ..linalg import Factors, balanced
from ..observations.base import Observations
from ..observations.transposed import transposed
from ..weights import Array, Huber
from .centre import centre
from .noisy import Noise
from .noisy_layers import Layers, Numbers, State, typical_residual
from .settling import settle
from .start import leading, leading_of_whole

# a rank that most tables do not reach: what is not needed dies, and what is not enough is doubled
HIGH_ENOUGH = 32
PER_NUMBER = 1.0  # observed entries for each free number, at the highest rank
NARROW = 64  # columns of a table that can have nearly full rank: priors hold it
MOST_CELLS = 2_000_000  # of a narrow table whose residual is made as a matrix
CLIPPED = 2.3  # medians of |e|: beyond, entries are clipped where components are added
FIRST_LAYERS = 2  # of rank 1
FEWEST_CARRY = (
    0.15  # of the lines: a component that fewer carry is an object that moves
)
# of power iteration for new components: they are to hang on the data, not on random numbers
ROUNDS = 2


# While components are added: near the absolute value, which rejects nothing; what covers whole
# groups lies in patches, and is rejected.
GROWING = Numbers(reach=2.3, shape=0.5, prior=1.0, kappa=0.3, eta=1.0)
GROWING_IN_GROUPS = GROWING._replace(shape=1.0)


def rank_for(obs: Observations, most: int = HIGH_ENOUGH) -> int:
    """High enough, and not above what the entries can carry."""
    full = min(obs.shape) - 1
    carried = int(obs.n_observed / (PER_NUMBER * sum(obs.shape)))
    if full <= NARROW and obs.n_observed > full * max(obs.shape) / 2:
        carried = full
    return max(1, min(most, carried, full))


def begin(
    obs: Observations,
    rank: int,
    noise: Noise,
    seed: int = 0,
    times: int = 2,
) -> State:
    """Where the layers begin: the last state of `grown`."""
    return grown(obs, rank, noise, seed, times)[-1]


def grown(
    obs: Observations,
    rank: int,
    noise: Noise,
    seed: int = 0,
    times: int = 2,
) -> tuple[State, ...]:
    """States of rank 1, 2, 4 and so on up to this one, each with so many `times` the components of
    the one before.

    Started with all components at once, patches of outliers become components of their own."""
    # so that a matrix and its transpose begin alike
    if obs.shape[0] < obs.shape[1] and obs.is_here:
        across = grown(transposed(obs), rank, noise.flipped(), seed, times)
        return tuple(state.flipped() for state in across)
    numbers = _growing(obs)
    state = _settled(obs, _first(obs, noise, seed), numbers, FIRST_LAYERS, noise)
    states = [state]
    while (now := states[-1].rank) < rank:
        states.append(raised(obs, states[-1], min(times * now, rank), noise, seed))
    return tuple(states)


def raised(
    obs: Observations,
    state: State,
    rank: int,
    noise: Noise,
    seed: int = 0,
) -> State:
    """A state of this rank: what stands out of the clipped residual is added, and a layer fits
    it.
    """
    state = _more(obs, state, rank - state.rank, noise, seed)
    again = 1 if obs.groups is None else FIRST_LAYERS
    return _settled(obs, state, _growing(obs), again, noise)


def _growing(obs: Observations) -> Numbers:
    return GROWING if obs.groups is None else GROWING_IN_GROUPS


def joined(obs: Observations, state: State, noise: Noise) -> State:
    """A layer as while components are added, for lines that were not fitted yet."""
    return _settled(obs, state, _growing(obs), 1, noise)


def leading_of(state: State, rank: int) -> State:
    """Its largest components alone, of which nothing is unknown yet."""
    some = np.eye(state.rank)[:, :rank]
    return State.known(Factors(*(turned(F, some) for F in balanced(*state.X))))


def halves(state: State) -> tuple[State, ...]:
    """Its largest component, the two largest, and so on up to the state itself, as `grown` has
    them.
    """
    ranks = [1]
    while 2 * ranks[-1] < state.rank:
        ranks.append(2 * ranks[-1])
    fewer = [leading_of(state, rank) for rank in ranks if rank < state.rank]
    return (*fewer, state)


def _first(obs: Observations, noise: Noise, seed: int) -> State:
    """The leading component of what rows and columns typically are, or of the data: a column
    that is mostly outliers must have no offset of its own.
    """
    middle = centre(obs)
    if middle is not None:
        X = Factors(*(turned(F, np.eye(2)[:, :1]) for F in balanced(*middle)))
    else:
        rule = Huber(times(CLIPPED * obs.scale, noise.rows), noise.cols)
        X = _leading(obs, 1, rule, seed)
    return State.known(X)


def _leading(
    obs: Observations,
    rank: int,
    rule: Huber,
    seed: int,
    model: Factors | None = None,
) -> Factors:
    """The leading part of the clipped residual of a model; of small tables it is made as a matrix."""
    gain = 1 / obs.fraction
    few = obs.shape[1] <= NARROW and obs.shape[0] * obs.shape[1] <= MOST_CELLS
    if few and obs.is_here and obs.groups is None:
        return leading_of_whole(obs, rank, rule, gain, model)
    return leading(obs, rank, rule, gain, model=model, seed=seed, rounds=ROUNDS)


def _settled(
    obs: Observations,
    state: State,
    numbers: Numbers,
    layers: int,
    noise: Noise,
) -> State:
    """A state after some layers with the same numbers."""
    same = Layers.same(numbers, layers)
    return settle(obs, state, same, noise, most_again=0).after


def _more(
    obs: Observations,
    state: State,
    count: int,
    noise: Noise,
    seed: int,
) -> State:
    """A state with more components: the leading ones of the clipped residual."""
    rule = Huber(
        times(CLIPPED * typical_residual(obs, state.X, noise), noise.rows), noise.cols
    )
    new = _leading(obs, count, rule, seed, state.X)
    pairs = zip(state.X, new, strict=True)
    unknown = [np.pad(V, ((0, count), (0, count))) for V in state.unknown]
    return State(Factors(*(beside(*pair) for pair in pairs)), (unknown[0], unknown[1]))


def from_part(part: State, side: int, n: int, known: Array | None = None) -> State:
    """A state for n lines on one side, of which some were fitted: the others begin at the mean, and
    as unknown as they are spread. Of what is not `known` by its place, all are others.
    """
    F = np.asarray(part.X[side], np.float64)
    spread = np.cov(F.T, bias=True).reshape(F.shape[1], F.shape[1])
    lines = np.tile(F.mean(0).astype(part.X[side].dtype), (n, 1))
    if known is not None:
        lines[known] = part.X[side]
    others = 1 - (0 if known is None else len(known)) / n
    return part.replaced(side, lines, others * spread + part.unknown[side])


def supported(state: State) -> State:
    """Without components that few of the longer lines carry: what moves, and is no background.

    1 / sum u^4 of a unit vector u is about how many of its entries carry it: a third of all for
    Gaussian ones."""
    X = balanced(*state.X)
    side = int(len(X.R) > len(X.L))
    squares = np.asarray(X[side], np.float64) ** 2
    carried = squares.sum(0) ** 2 / np.maximum((squares**2).sum(0), 1e-300)
    kept = carried >= FEWEST_CARRY * len(squares)
    kept[0] = True
    some = np.eye(len(kept))[:, kept]
    return State.known(Factors(*(turned(F, some) for F in X)))
