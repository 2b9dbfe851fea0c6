"""A small rollout dump."""

GROUP = [
    {"group": "g", "token_ids": [7, 1, 1], "reward": 1},
    {"group": "g", "token_ids": [7, 2], "reward": 0},
    {"group": "g", "token_ids": [7, 1], "reward": 1},
    {"group": "g", "token_ids": [7, 2, 3], "reward": 0},
]
"""Four rollouts of one prompt, two of them right."""
