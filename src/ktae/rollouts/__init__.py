"""The one record of rollouts that trainer, scoring, report and plots share."""
