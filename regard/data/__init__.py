"""Text in, batches out: reading corpora, subwords, order, and the corpora built into the package."""
