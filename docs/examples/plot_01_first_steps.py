"""
First steps
===========

A matrix of rank 3 of which half of the entries are hidden, and a tenth of the others are wrong.
"""

# %%
# The problem has a known answer, so that the error can be measured.
import matplotlib.pyplot as plt

import lrmc

problem = lrmc.synthetic.problem(
    n=80, rank=3, alpha=0.1, p=0.5, outlier_scale=5, form="dense"
)
result = lrmc.solve(problem.Y)
print(result)
print(f"relative error {lrmc.relative_error(result, problem):.0e}")

# %%
# Nothing had to be said about the rank or the outliers. Left: what was observed; middle: what was recovered; right: the
# entries that were found to be wrong.
figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
pictures = {
    "observed": problem.Y,
    "completed": result.completed(),
    "outliers": result.outliers(),
}
for ax, (title, X) in zip(axes, pictures.items(), strict=True):
    ax.imshow(X, vmin=-0.05, vmax=0.05, cmap="RdBu")
    ax.set(title=title, xticks=[], yticks=[])
