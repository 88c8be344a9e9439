"""The one exception that a user's mistake raises: a sentence, no traceback, exit code 2. All exit codes but 0."""

from collections.abc import Iterable
from difflib import get_close_matches

EXIT_FAILED_RUNS, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130


class NeolError(ValueError):
    """Something the user can mend. Its text is one sentence, on one line: the field, the value, what is allowed."""

    def __init__(self, sentence: str) -> None:
        super().__init__(" ".join(sentence.splitlines()))


def nearest(name: str, valid: Iterable[str]) -> str:
    """``did you mean 'hebb'?`` or the list of valid names, as the end of an error sentence."""
    names = list(valid)
    by_lower = {n.lower(): n for n in reversed(names)}
    close = get_close_matches(str(name).lower(), by_lower, n=1, cutoff=0.5)
    hint = f"did you mean '{by_lower[close[0]]}'? " if close else ""
    shown = ", ".join(names) if len(names) <= 24 else f"{len(names)} names, e.g. {', '.join(names[:8])}"
    return f"{hint}Valid: {shown}."
