"""How well an estimator's gradient points to where the expected reward grows."""
