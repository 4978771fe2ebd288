"""Out and in: a run in the formats of other programs, checked to give the same answers; their models as runs."""
