"""Each rule of lrmc.weights, beside what the reference makes of it."""

import numpy as np
import reference
from each import each

from lrmc.weights import Cauchy, Clip, Huber, Mixture, Power, Threshold


def sides(n1, n2, typical):
    """Thresholds around `typical`; about a quarter of rows and columns are protected."""
    rng = np.random.default_rng(n1 + 1000 * n2)
    zr, zc = (typical * rng.uniform(0.3, 1.3, n) for n in (n1, n2))
    return zr, zc, *((rng.random(n) < 0.25).astype(float) for n in (n1, n2))


def clip(n1, n2, typical):
    return Clip(typical), reference.clip(typical)


def number(n1, n2, typical):
    return typical, reference.clip(typical)


def threshold(outliers, protect=True):
    def make(n1, n2, typical):
        zr, zc, *protected = sides(n1, n2, typical)
        protected = protected if protect else [np.zeros(n1), np.zeros(n2)]
        return Threshold(zr, zc, *protected, outliers), reference.threshold(
            zr, zc, *protected, outliers
        )

    return make


def even(n1, n2, typical):
    """Columns all alike; rows too but for two in seven, which are wider or narrower."""
    zr, zc = np.full(n1, typical), np.full(n2, typical)
    zr[3::7], zr[4::7] = 1.5 * typical, 0.5 * typical
    none = np.zeros(n1), np.zeros(n2)
    return Threshold(zr, zc, *none), reference.threshold(zr, zc, *none)


def by_row(n1, n2, typical):
    """A threshold for each row, and none protected: no column has a wider one."""
    zr, zc, *_ = sides(n1, n2, typical)
    zr, zc = zr + typical, np.minimum(zc, typical)
    none = np.zeros(n1), np.zeros(n2)
    return Threshold(zr, zc, *none), reference.threshold(zr, zc, *none)


def smooth(kind, slow, outliers):
    """Cauchy and Huber: the threshold is the product of both sides."""

    def make(n1, n2, typical):
        zr, zc, *_ = sides(n1, n2, typical)
        return kind(zr, zc / typical, outliers), slow(zr, zc / typical, outliers)

    return make


def mixture(outliers):
    def make(n1, n2, typical):
        zr, zc, *_ = sides(n1, n2, typical)
        return Mixture(zr, zc / typical, outliers, odds=0.05), reference.mixture(
            zr, zc / typical, 0.05, outliers
        )

    return make


def power(shape, outliers):
    def make(n1, n2, typical):
        zr, zc, *_ = sides(n1, n2, typical)
        slow = reference.power(zr, zc / typical, shape, outliers)
        return Power(zr, zc / typical, outliers, shape=shape), slow

    return make


rules = [
    ("clip", clip),
    ("a number", number),
    ("threshold", threshold("both")),
    ("threshold, none protected", threshold("both", protect=False)),
    ("threshold, nearly even", even),
    ("threshold, by row", by_row),
    ("threshold, positive", threshold("positive")),
    ("threshold, negative", threshold("negative")),
    ("cauchy", smooth(Cauchy, reference.cauchy, "both")),
    ("cauchy, positive", smooth(Cauchy, reference.cauchy, "positive")),
    ("huber", smooth(Huber, reference.huber, "both")),
    ("huber, negative", smooth(Huber, reference.huber, "negative")),
    ("mixture", mixture("both")),
    ("mixture, positive", mixture("positive")),
    ("power", power(0.6, "both")),
    ("power, negative", power(1.4, "negative")),
]
every_rule = each("rule", [make for _, make in rules], ids=[name for name, _ in rules])
