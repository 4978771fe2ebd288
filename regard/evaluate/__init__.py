"""Scores of outputs against references."""
