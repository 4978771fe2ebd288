"""What is wrong with the fields of a request, in a sentence of ours: pydantic speaks of its own validators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.errors import nearest

SHOWN = 100  # characters of a field's name that somebody has made up


def wrong_with(errors: Sequence[Mapping[str, Any]], must: Mapping[str, str], outer: int = 0) -> str:
    """A sentence for the first field of which pydantic complains; without what was sent in it. `must` says of each
    field what it must be; `outer` parts of a place are no field."""
    first = errors[0]
    name = str(first["loc"][outer])
    if first["type"] == "missing":
        return f"The field {name} is missing: send {must[name]}."
    if name not in must:
        shown = name[:SHOWN]
        return f"There is no field {shown}{nearest(shown, must) or ': there is ' + ', '.join(must)}."
    mine = [error for error in errors if str(error["loc"][outer]) == name]
    for error in mine:  # where a field may be one of several things, each complains
        if error["type"] == "value_error":
            return f"{name} {error['ctx']['error']}."
    return f"{name} must be {must[name]}."
