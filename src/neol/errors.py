"""The one exception that a user's mistake raises: a sentence, no traceback, exit code 2. All exit codes but 0."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

from neol.synonyms import NOTES, SYNONYMS

LONGEST = 1000  # characters of a sentence; what a file or a user wrote may be long
EXIT_FAILED_RUNS, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130


class NeolError(ValueError):
    """Something the user can mend. Its text is one sentence, on one line: the field, the value, what is allowed.

    It is written with the options of the command line, which prints `sentence`; in Python the text has arguments.
    """

    def __init__(self, sentence: str) -> None:
        text = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(sentence.splitlines()))
        self.sentence = text if len(text) <= LONGEST else f"{text[: LONGEST - 205]} ... {text[-200:]}"
        super().__init__(re.sub(r"(?<![\w-])--([a-z][a-z-]*)", _argument, self.sentence))


def _argument(option: re.Match[str]) -> str:
    """`--resume` -> `resume=True`, `--max-env-steps` -> `max_env_steps`."""
    name = option[1].replace("-", "_")
    return f"{name}=True" if name in ("resume", "overwrite", "trust") else name


def nearest(name: str, valid: Iterable[str]) -> str:
    """``did you mean 'hebb'?`` or the list of valid names, as the end of an error sentence."""
    names = list(valid)
    meant, note = closest(name, names)
    hint = f"{note}did you mean '{meant}'? " if meant else ""
    shown = ", ".join(names) if len(names) <= 24 else f"{len(names)} names, e.g. {', '.join(names[:8])}"
    return f"{hint}Valid: {shown}."


def closest(name: str, valid: Iterable[str]) -> tuple[str, str]:
    """(the valid name that was probably meant, or '', what to say before it).

    Near is what other libraries call the same (`--learning-rate`: `--lr`), then what is spelled alike.
    """
    plain = {_plain(n): n for n in reversed(list(valid))}
    meant = {word: next((plain[o] for o in ours if o in plain), "") for word, ours in SYNONYMS.items()}
    meant = {word: own for word, own in meant.items() if own}
    said = _plain(name)
    for names, cutoff in ((meant, 0.8), (plain, 0.5), (meant, 0.7)):
        found = [said] if said in names else get_close_matches(said, names, n=1, cutoff=cutoff)
        if found:
            return names[found[0]], NOTES.get(found[0], "")
    return "", ""


def _plain(name: str) -> str:
    """An option or a setting without what differs between the two."""
    return str(name).lower().lstrip("-").replace("-", "_")
