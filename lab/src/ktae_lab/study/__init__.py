"""Experiment matrices: what to run, the runs as processes, and what they show."""
