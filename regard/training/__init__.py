"""The one loop, and what it keeps on disk."""
