"""Whole networks, one file each, built from `regard.nn`. They know nothing of data, training or commands."""
