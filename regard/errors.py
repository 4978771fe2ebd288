"""The one exception that users see: a problem they can fix, said in a sentence, without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

TELLING = 3  # letters of a name's beginning that tell it
SPOKEN = {"cnn": "conv", "rnn": "recurrent", "lstm": "recurrent", "gru": "recurrent"}  # what is said for names here


class RegardError(Exception):
    """Bad input, a bad recipe or a damaged file; the message names the place and the fix."""


class InputError(RegardError, ValueError):
    """Arrays, targets or parameters that cannot be used; scikit-learn expects a ValueError."""


class Interrupted(RegardError):
    """Ctrl-C or a polite kill; the message says what is saved and how to go on."""


class Diverged(RegardError):
    """A loss that is no longer a number; the message says what to lower."""


def nearest(word: str, candidates: Iterable[str]) -> str:
    """A hint such as ` (did you mean d_model?)`, or nothing where no candidate is close. One that begins with the word
    is closer than any other, also where the word has a common name for a family of networks. Capitals do not count."""
    word, names = word.casefold(), {one.casefold(): one for one in candidates}
    said = [word, *(word.replace(name, ours) for name, ours in SPOKEN.items() if name in word)]
    longer = [one for one in names if len(word) >= TELLING and one.startswith(tuple(said))]
    close = difflib.get_close_matches(word, longer, n=1, cutoff=0.0) or difflib.get_close_matches(
        word, names, n=1, cutoff=0.5
    )
    return f" (did you mean {names[close[0]]}?)" if close else ""
