"""What a model can do: generation, and scores of what it generated."""
