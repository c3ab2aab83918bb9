"""
Anomalous rows
==============

:class:`lrmc.RobustPCA` learns what ordinary rows look like from data in which some are not, and flags new ones with a
stated rate of false alarms.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lrmc

rng = np.random.default_rng(0)
patterns = rng.standard_normal((3, 30))


def rows(n):
    """Ordinary rows: three patterns and noise, a tenth of the entries missing."""
    X = rng.standard_normal((n, 3)) @ patterns + 0.3 * rng.standard_normal((n, 30))
    return np.where(rng.random(X.shape) < 0.1, np.nan, X)


train, test = rows(400), rows(1000)
train[:30] += rng.standard_normal((30, 30))  # anomalies among the training rows
test[:50] += 0.8 * rng.standard_normal((50, 30))

# %%
pca = lrmc.RobustPCA(n_components=3, false_alarms=0.01).fit(train)
flagged = pca.predict(test) == -1
print(f"found {flagged[:50].mean():.0%} of the anomalies")
print(f"false alarms: {flagged[50:].mean():.1%}, asked for 1 %")

# %%
figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
bins = np.linspace(*np.quantile(pca.decision_function(test), [0, 1]), 50)
ax.hist(pca.decision_function(test[50:]), bins, label="ordinary rows")
ax.hist(pca.decision_function(test[:50]), bins, label="anomalous rows")
ax.axvline(0, color="0.3", ls="--")
ax.set(xlabel="decision function", ylabel="rows", yscale="log")
ax.legend()
