"""Sets to learn from: generated without end, or taken from files. Every set follows from a seed and its number."""

from regard.data.sets.stream import SetOrder, Sets, Source, Stream, stream

__all__ = ["SetOrder", "Sets", "Source", "Stream", "stream"]
