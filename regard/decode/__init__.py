"""From a step function to sentences: the one search, and the translator that feeds it."""
