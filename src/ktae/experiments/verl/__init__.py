"""Recipes trained through verl."""
