"""
When low rank is the wrong tool
===============================

Data without shared patterns: lrmc says so. Such warnings are worth reading.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np

import lrmc

rng = np.random.default_rng(0)
t = np.linspace(0, 1, 150)
shared = rng.standard_normal((40, 2)) @ np.stack([np.sin(6 * t), np.cos(6 * t)])
alone = rng.standard_normal((40, 150))
names = {"shared patterns": shared, "nothing shared": alone}

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
for ax, (name, X) in zip(axes, names.items(), strict=True):
    seen = rng.random(X.shape) < 0.8
    Y = np.where(seen, X + 0.1 * rng.standard_normal(X.shape), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are printed below
        result = lrmc.solve(Y)
    print(f"{name}: {result}")
    for text in result.warnings:
        print(f"    {text}")
    ax.plot(X[~seen], result.completed()[~seen], ".", ms=3)
    ax.set(title=name, xlabel="hidden value", ylabel="filled in")
    ax.axline((0, 0), slope=1, color="0.7")
