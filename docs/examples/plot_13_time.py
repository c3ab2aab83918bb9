"""
A table with time
=================

Sensors that share the shape of a day, each with a slow process of its own. Single entries are missing,
a whole day of one sensor too, and some values are wrong.
"""

# %%
# Rows are sensors, columns are hours. Nothing but that is said: the period is found.
import matplotlib.pyplot as plt
import numpy as np

import lrmc

rng = np.random.default_rng(0)
hours = np.arange(14 * 24)
day = np.stack([np.sin(np.pi * hours / 12), np.cos(np.pi * hours / 6)])
own = 0.4 * np.cumsum(rng.standard_normal((12, len(hours))), axis=1)
truth = 50 + 3 * rng.standard_normal((12, 2)) @ day + own

Y = truth + 0.3 * rng.standard_normal(truth.shape)
Y[rng.random(Y.shape) < 0.02] = 0
missing = rng.random(Y.shape) < 0.3
missing[3, 6 * 24 : 7 * 24] = True
Y[missing] = np.nan

result = lrmc.solve(Y, time="columns")
found = result.completed()
print("period", result.evidence["time"]["period"])

# %%
# What was missing, by the model with time and by low rank alone.
for name, X in (("with time", found), ("low rank alone", result.low_rank())):
    print(f"{name}: RMSE {np.sqrt(np.mean((X - truth)[missing] ** 2)):.2f}")

# %%
# The sensor with a whole day missing, and the next day.
ahead = result.forecast(24)
later = np.arange(len(hours), len(hours) + 24)
figure, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
ax.plot(hours, Y[3], ".", label="observed")
ax.plot(hours, found[3], label="completed")
ax.plot(later, ahead.values[3], label="forecast")
ax.fill_between(later, ahead.lower[3], ahead.upper[3], alpha=0.3)
ax.set(xlabel="hour")
ax.legend()
