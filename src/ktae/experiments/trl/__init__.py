"""Recipes trained through TRL."""
