"""
Following a stream
==================

``partial_fit`` follows batches of rows whose patterns drift, with memory that does not grow.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lrmc

rng = np.random.default_rng(0)
start, end = (np.linalg.qr(rng.standard_normal((40, 3)))[0].T for _ in range(2))


def batch(t):
    """100 rows at time t (0 to 1), with gaps and gross errors."""
    patterns = (1 - t) * start + t * end
    X = 3 * rng.standard_normal((100, 3)) @ patterns + 0.05 * rng.standard_normal(
        (100, 40)
    )
    X[rng.random(X.shape) < 0.05] += 20
    return np.where(rng.random(X.shape) < 0.2, np.nan, X), np.linalg.qr(patterns.T)[0]


def angle(pca, subspace):
    """The largest angle between the components and the true patterns, in degrees."""
    s = np.linalg.svd(pca.components_ @ subspace, compute_uv=False)
    return np.degrees(np.arccos(np.clip(s.min(), 0, 1)))


follows = lrmc.RobustPCA(3, center=False, forgetting=0.5)
angles = {"follows": [], "fitted once": []}
once = lrmc.RobustPCA(3, center=False).fit(batch(0)[0])
for t in np.linspace(0, 0.8, 25):
    X, truth = batch(t)
    follows.partial_fit(X)
    angles["follows"].append(angle(follows, truth))
    angles["fitted once"].append(angle(once, truth))

# %%
figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
for name, values in angles.items():
    ax.plot(values, "o-", ms=3, label=name)
ax.set(xlabel="batch", ylabel="angle to the truth, degrees")
ax.legend()
