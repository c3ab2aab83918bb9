"""
Outliers on one side
====================

Clouds are brighter than the ground, rain adds to a signal, people stand in front of a wall. If outliers only lie above
the truth, say so.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lrmc

rng = np.random.default_rng(0)
t = np.linspace(0, 6, 200)
patterns = np.stack([np.ones_like(t), np.sin(t), np.sin(2 * t)])
X = rng.uniform(0.2, 1, (60, 3)) @ patterns
Y = X + 0.05 * rng.standard_normal(X.shape)
for row in Y:  # episodes during which a sensor reads too much
    begin = rng.integers(0, 150)
    row[begin : begin + 40] += rng.uniform(0.1, 1.0)

# %%
# The rows are in an order that lrmc would find. A model of time goes along with what stays too high for a while, so it
# is left out here: ``time=None``. With ``outliers="positive"`` and nothing missing that happens by itself.
errors = {}
for side in ("both", "positive"):
    fit = lrmc.solve(Y, rank=3, outliers=side, time=None)
    errors[side] = np.sqrt(np.mean((fit.completed() - X) ** 2))
    print(f'outliers="{side}": root mean square error {errors[side]:.3f}')

# %%
figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
ax.plot(t, Y[0], ".", ms=3, color="0.6", label="measured")
ax.plot(t, X[0], color="k", lw=1, label="truth")
ax.plot(t, fit.completed(slice(0, 1))[0], color="C3", label="recovered")
ax.legend()
