"""Jobs: each joins data, a model, a loss and metrics, and leaves the training to the one loop."""
