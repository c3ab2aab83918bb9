"""
Background and foreground of a video
====================================

A generated clip: a fixed camera, changing light, and something that moves.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from lrmc.apps import video

height, width, frames = 60, 90, 60
rng = np.random.default_rng(0)
y, x = np.mgrid[:height, :width]
scene = 110 + 50 * np.sin(x / 9) * np.cos(y / 13) + 25 * (y > 40)
clip = np.empty((frames, height, width))
for t in range(frames):
    clip[t] = scene * (0.9 + 0.1 * np.cos(t / 12))
    ball = (x - 1.6 * t) ** 2 + (y - 30 - 10 * np.sin(t / 8)) ** 2 < 60
    clip[t][ball] = 240
clip = np.clip(clip + rng.normal(0, 3, clip.shape), 0, 255).astype(np.uint8)

# %%
found = video.separate(clip)
background, masks = found.background(), found.masks()

figure, axes = plt.subplots(1, 3, figsize=(10, 2.6), layout="constrained")
shown = {"frame 25": clip[25], "background": background[25], "mask": masks[25]}
for ax, (title, picture) in zip(axes, shown.items(), strict=True):
    ax.imshow(picture, cmap="gray")
    ax.set(title=title, xticks=[], yticks=[])
