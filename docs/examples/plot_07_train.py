"""
Training a schedule
===================

Thresholds and steps of the paper's LRMC, learned by exact gradients on problems like yours.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import lrmc

problems = lrmc.synthetic.Problems(n=120, alpha=0.2, p=0.8)
schedule = lrmc.train(problems, rank=3, layers=6, model="fnn", steps=40)

# %%
fresh = [
    lrmc.synthetic.problem(n=120, rank=3, alpha=0.2, p=0.8, seed=s)
    for s in range(50, 55)
]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.semilogy(schedule.zeta, "o-")
left.set(xlabel="layer", title="learned thresholds")
for name, plan in {"learned": schedule, "geometric": "geometric"}.items():
    errors = np.empty((len(fresh), 7))
    for i, problem in enumerate(fresh):
        steps = lrmc.iterates(problem.Y, rank=3, schedule=plan)
        errors[i] = [lrmc.relative_error(it, problem) for it, _ in zip(steps, range(7))]
    right.semilogy(np.median(errors, axis=0), "o-", label=name)
right.set(xlabel="iteration", title="error on fresh problems")
right.legend()
