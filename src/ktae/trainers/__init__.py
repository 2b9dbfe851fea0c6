"""Token credit in the trainers that people run: one room an engine, and what they share."""
