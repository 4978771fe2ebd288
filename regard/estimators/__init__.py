"""Estimators of sets: fit, predict and score on a list of arrays, as scikit-learn has them."""
