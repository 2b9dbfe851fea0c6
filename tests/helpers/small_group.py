"""A small rollout dump, and arrays of a few rollouts with tokens in common."""

import numpy as np

GROUP = [
    {"group": "g", "token_ids": [7, 1, 1], "reward": 1},
    {"group": "g", "token_ids": [7, 2], "reward": 0},
    {"group": "g", "token_ids": [7, 1], "reward": 1},
    {"group": "g", "token_ids": [7, 2, 3], "reward": 0},
]
"""Four rollouts of one prompt, two of them right."""

N, T = 6, 7
IDS = np.random.default_rng(3).integers(0, 9, (N, T))
MASK = np.arange(T) < np.array([7, 5, 7, 3, 6, 7])[:, None]
