"""
The default and the paper's LRMC
================================

``lrmc.iterates`` gives the iterates one by one: an experiment is a loop, without callbacks.
"""

# %%
import matplotlib.pyplot as plt

import lrmc

problem = lrmc.synthetic.problem(n=600, rank=5, alpha=0.1, p=0.5)
runs = {
    "closed loop (the default)": {},
    "LRMC, trained schedule": {"schedule": "nearest"},
    "LRMC, geometric schedule": {"schedule": "geometric"},
}
figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for name, options in runs.items():
    errors = []
    for it in lrmc.iterates(problem.Y, rank=5, **options):
        errors.append(lrmc.relative_error(it, problem))
        if it.k == 40 or errors[-1] < 1e-7:
            break
    ax.semilogy(errors, "o-", ms=3, label=name)
ax.set(xlabel="iteration", ylabel="relative error")
ax.legend()
