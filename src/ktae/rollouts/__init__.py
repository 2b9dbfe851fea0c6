"""The one record of rollouts that trainer, scoring, report and plots share."""

from pathlib import Path

EXAMPLE = Path(__file__).with_name("example")
"""Rollouts that come with ktae, and the texts of their tokens: what `--example` reads."""
