"""Training data: from a source of problems to the files that each engine reads."""
