"""How `neol` reads its words: one-sentence errors, help in two tiers, and options made from the config dataclasses."""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
import textwrap
from pathlib import Path
from typing import Any, NoReturn

from neol.config.checks import CHANGES
from neol.config.schema import Config, field_choices, field_help, field_type, fields, is_basic
from neol.errors import NeolError, nearest


def path_of(text: str) -> Path:
    """A path on the command line; an empty one (of a variable that is not set) is a mistake, not the current folder."""
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError("it must be a path, not an empty text")
    return Path(text)


UNSET = object()  # the value of an option that was not given
WIDTH = 80  # columns of help where the terminal is no narrower


class HelpFormatter(argparse.HelpFormatter):
    """argparse's, with room for our options; it never breaks a word at a hyphen."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)
        self._width = min(self._width, WIDTH)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """argparse whose errors are one sentence, and whose help has two tiers where some options are `rare`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"formatter_class": HelpFormatter, "allow_abbrev": False, **kwargs})
        self.rare: frozenset[str] = frozenset()  # by `dest`: shown by --help-all alone
        self.lines: tuple[str, ...] = ()  # at the end of the help, as they are

    def error(self, message: str) -> NoReturn:
        wrong = re.match(r"argument [^:]*: invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if wrong:
            choices = re.findall(r"[\w-]+", wrong[2])
            message = f"{self._where()}unknown command '{wrong[1]}'; {nearest(wrong[1], choices)}"
        raise NeolError(f"{message}." if not message.endswith(".") else message)

    def _where(self) -> str:
        """`train: ` of `neol train`, nothing of `neol`, which every message begins with."""
        inner = self.prog.partition(" ")[2]
        return f"{inner}: " if inner else ""

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """As argparse's, but a subcommand names its own unknown options, with the nearest that it has."""
        for word in args[0] if args and args[0] is not None else sys.argv[1:]:
            if re.fullmatch(r"--[\w-]+=--", word):  # argparse would take it for nothing at all
                raise NeolError(f"{self._where()}'--' is not allowed as the value of '{word[:-3]}'.")
        parsed, unknown = super().parse_known_args(*args, **kwargs)
        if unknown:
            name = unknown[0].split("=")[0]
            options = [o for a in self._actions for o in a.option_strings if o.startswith("--")]
            positions = [str(a.metavar) for a in self._actions if not a.option_strings and a.metavar]
            what = "option" if name.startswith("-") else "argument"
            raise NeolError(f"{self._where()}unknown {what} '{name}'; {nearest(name, [*positions, *options])}")
        return parsed, unknown

    def format_help(self, everything: bool = False) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for group in self._action_groups:
            shown = [a for a in group._group_actions if everything or a.dest not in self.rare]
            if shown:
                formatter.start_section(group.title)
                formatter.add_text(group.description)
                formatter.add_arguments(shown)
                formatter.end_section()
        if self.rare and not everything:
            hidden = sum(a.dest in self.rare for a in self._actions)
            formatter.add_text(f"`{self.prog} --help-all` shows {hidden} more options.")
        formatter.add_text(self.epilog)
        return "\n".join([formatter.format_help(), *self.lines, ""]) if self.lines else formatter.format_help()


class HelpAll(argparse.Action):
    """`--help-all`: the rare options, too."""

    def __init__(self, option_strings: list[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest=argparse.SUPPRESS, default=argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        assert isinstance(parser, Parser)
        print(parser.format_help(everything=True), end="")
        parser.exit()


class Append(argparse.Action):
    """An option that may be given several times: a list of all that it was given."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, *_: Any) -> None:
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, [value] if before is UNSET else [*before, value])


def settings_options(parser: Parser, rare: frozenset[str] = frozenset()) -> None:
    """An option for every setting, by section. `neol train --help` shows those marked basic in config/sections.py."""
    parser.add_argument("--help-all", action=HelpAll, help="show all options, the rare ones too")
    about = {f.name: f.default_factory.__doc__ for f in dataclasses.fields(Config)}
    groups = {s: parser.add_argument_group(f"{s} ({_lower(about[s])})") for s in dict.fromkeys(fields().values())}
    defaults, helps = Config().flat(), field_help()
    for name, section in fields().items():
        if name == "task":
            continue
        default = defaults[name]
        shown = (",".join(default) if isinstance(default, tuple) else str(default).lower()) or "none"
        choices = field_choices(name)
        metavar = "{" + ",".join(choices) + "}" if 0 < len(choices) <= 4 else _metavar(field_type(name))
        if 0 < len(choices) <= 4 and isinstance(default, tuple):
            metavar += "[,...]"  # several, as reward,action
        words: dict[str, Any] = {"nargs": "?", "const": "true"} if field_type(name) is bool else {}
        if name == "env_kwargs":
            words, metavar = {"nargs": "+"}, "KEY=VALUE"
        if name == "start":
            metavar = "RUN"
        if name in CHANGES:
            words, metavar = {"action": Append}, "CHANGE"
        text = f"{helps[name]} ({shown})".replace("%", "%%")
        groups[section].add_argument(
            f"--{option_name(name)}", dest=name, default=UNSET, metavar=metavar, help=text, **words
        )
    parser.rare = rare | {name for name in fields() if name != "task" and not is_basic(name)}


def option_name(name: str) -> str:
    """What a setting is called on the command line, after --."""
    return "from" if name == "start" else name.replace("_", "-")


def _lower(sentence: str | None) -> str:
    text = (sentence or "").rstrip(".")
    return text[:1].lower() + text[1:]


def _metavar(kind: Any) -> str:
    return {int: "N", float: "X", bool: "true|false", str: "NAME"}.get(kind, "NAMES")
