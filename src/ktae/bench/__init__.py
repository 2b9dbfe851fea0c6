"""A yardstick for token credit: worlds in which the advantage of every token is known exactly."""
