"""The one exception that a user's mistake raises: a sentence, no traceback, exit code 2. All exit codes but 0."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

EXIT_FAILED_RUNS, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130


class NeolError(ValueError):
    """Something the user can mend. Its text is one sentence, on one line: the field, the value, what is allowed.

    It is written with the options of the command line, which prints `sentence`; in Python the text has arguments.
    """

    def __init__(self, sentence: str) -> None:
        self.sentence = " ".join(sentence.splitlines())
        super().__init__(re.sub(r"(?<![\w-])--([a-z][a-z-]*)", _argument, self.sentence))


def _argument(option: re.Match[str]) -> str:
    """`--resume` -> `resume=True`, `--max-env-steps` -> `max_env_steps`."""
    name = option[1].replace("-", "_")
    return f"{name}=True" if name in ("resume", "overwrite") else name


def nearest(name: str, valid: Iterable[str]) -> str:
    """``did you mean 'hebb'?`` or the list of valid names, as the end of an error sentence."""
    names = list(valid)
    by_lower = {n.lower(): n for n in reversed(names)}
    close = get_close_matches(str(name).lower(), by_lower, n=1, cutoff=0.5)
    hint = f"did you mean '{by_lower[close[0]]}'? " if close else ""
    shown = ", ".join(names) if len(names) <= 24 else f"{len(names)} names, e.g. {', '.join(names[:8])}"
    return f"{hint}Valid: {shown}."
