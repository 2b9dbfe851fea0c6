"""The ways in which tools write rollouts: data, in `tools.toml`, and functions for the rest."""
