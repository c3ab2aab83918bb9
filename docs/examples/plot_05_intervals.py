"""
How sure is a fill?
===================

Intervals for missing entries are learned by hiding entries that look like the gaps. Here the truth is known, so their
coverage can be checked.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lrmc

rng = np.random.default_rng(1)
X = rng.standard_normal((120, 3)) @ rng.standard_normal((3, 60))
noisy = X + 0.3 * rng.standard_normal(X.shape)
seen = rng.random(X.shape) < 0.7
result = lrmc.solve(np.where(seen, noisy, np.nan), rank=3)

# %%
row, col = np.nonzero(~seen)
levels = (0.5, 0.8, 0.9, 0.95)
covered = []
for level in levels:
    low, high = result.interval(row, col, level)
    covered.append(np.mean((low <= noisy[row, col]) & (noisy[row, col] <= high)))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot([0.4, 1], [0.4, 1], color="0.7")
left.plot(levels, covered, "o-")
left.set(xlabel="level asked for", ylabel="fraction inside", title="coverage")
some = np.argsort(result.completed()[row, col])[:: len(row) // 40]
low, high = result.interval(row[some], col[some], 0.9)
right.vlines(
    range(len(some)), low, high, color="C0", lw=3, alpha=0.5, label="90 % interval"
)
right.plot(noisy[row[some], col[some]], "k.", label="hidden value")
right.set(title="some missing entries", xticks=[])
right.legend()
