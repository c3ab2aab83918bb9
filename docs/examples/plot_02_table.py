"""
A table with gaps and slips
===========================

Measurements of wines (from scikit-learn) with missing cells and slipped decimal points. Columns have different units,
so they are scaled: :class:`lrmc.RobustImputer` does that, and finds the slips as well.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.impute import SimpleImputer

import lrmc

table = load_wine(as_frame=True).data
rng = np.random.default_rng(0)
measured = table.copy()
slipped = rng.random(table.shape) < 0.02
missing = rng.random(table.shape) < 0.15
measured = measured.mask(slipped, 10 * table).mask(missing)

# %%
# ``fill="missing+outliers"`` fills the gaps and replaces what is wrong.
imputer = lrmc.RobustImputer(fill="missing+outliers").set_output(transform="pandas")
cleaned = imputer.fit_transform(measured)
medians = SimpleImputer(strategy="median").fit_transform(measured)
spread = table.std().to_numpy()


def error(filled):
    """The mean absolute error of the missing cells, in deviations of their columns."""
    return np.abs((filled - table.to_numpy()) / spread)[missing].mean()


print(f"lrmc {error(cleaned.to_numpy()):.2f}, medians {error(medians):.2f}")

# %%
# The slips, and what they were replaced by.
scaled = (measured.to_numpy() - imputer.center_) / imputer.scale_
scores = imputer.pca_.outlier_scores(scaled)
figure, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
bins = np.geomspace(0.01, 1000, 60)
ax.hist(scores[~slipped & ~missing], bins, label="good cells")
ax.hist(scores[slipped & ~missing], bins, label="slipped decimal points")
ax.axvline(6, color="0.3", ls="--", label="limit for outliers")
ax.set(
    xscale="log", yscale="log", xlabel="distance from the model / noise", ylabel="cells"
)
ax.legend()
