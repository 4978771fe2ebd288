"""Blocks: masks, layouts, attention, positions and layers. They know nothing of models, data or training."""
