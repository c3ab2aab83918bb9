"""
A report to share
=================

Everything about a run on one HTML page that needs nothing else: facts, warnings, convergence, singular values, a map
of the outliers.
"""

# %%
import tempfile
from pathlib import Path

import lrmc

problem = lrmc.synthetic.problem(n=200, rank=3, alpha=0.1, p=0.6, form="dense")
result = lrmc.solve(problem.Y)
page = Path(tempfile.mkdtemp()) / "report.html"
lrmc.report.write_report(
    page, "A synthetic problem", lrmc.report.result_sections(result)
)
print(f"{page.stat().st_size / 1000:.0f} kB")

# %%
# The same facts as a plot.
import matplotlib.pyplot as plt

steps = result.history[1:]
figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
ax.semilogy(
    [step.k for step in steps],
    [step.change for step in steps],
    "o-",
    label="change of X",
)
ax.semilogy(
    [step.k for step in steps], [step.zeta for step in steps], "s-", label="threshold"
)
ax.set(xlabel="iteration")
ax.legend()
