"""What a page may say, checked; and how a frame travels: a JSON head, then pictures."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from neol.config.schema import field_choices
from neol.errors import NeolError

LONGEST_MESSAGE = 16_384  # bytes that a page may say at once
MOST_WATCHED = 12  # runs that a page looks at
LONGEST_CHANGE = 200  # characters
LARGEST_SEED = 2**31 - 1_000_000  # a life's trials have the seeds after it
LARGEST_MESSAGE = 64_000_000  # bytes of a frame


class Saying(NamedTuple):
    """A checked message of a page."""

    do: str
    values: dict[str, Any]


def _whole(low: int, high: int) -> Any:
    def check(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high

    return check


def _number(low: float, high: float) -> Any:
    def check(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high

    return check


def _text(longest: int) -> Any:
    def check(value: Any) -> bool:
        return isinstance(value, str) and 0 < len(value) <= longest and value.isprintable()

    return check


def _names(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MOST_WATCHED and all(isinstance(v, str) for v in value)


# what is done -> its fields and what they must be; all are needed
WATCHING: dict[str, dict[str, Any]] = {"watch": {"runs": _names}}
LIVING: dict[str, dict[str, Any]] = {
    "got": {},  # a frame was drawn: the next may come
    "play": {}, "pause": {}, "step": {},
    "reset": {"seed": _whole(0, LARGEST_SEED)},
    "speed": {"speed": _number(0.01, 100.0)},
    "lives": {"count": _whole(1, 2)},
    "rule": {"life": _whole(0, 1), "rule": lambda v: isinstance(v, str) and v in field_choices("rule")},
    "rate": {"life": _whole(0, 1), "lr": _number(0.0, 1000.0)},
    "change": {"text": _text(LONGEST_CHANGE)},
    "end": {"place": _whole(0, 10_000)},
}  # fmt: skip


def read_saying(text: str | bytes, allowed: Mapping[str, Mapping[str, Any]]) -> Saying:
    """A page's message, or a NeolError: whatever else it is, it is refused here."""
    if len(text) > LONGEST_MESSAGE:
        raise NeolError(f"a message of {len(text)} bytes is not allowed; it may have {LONGEST_MESSAGE}.")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise NeolError("the message is not JSON.") from None
    if not isinstance(value, dict) or not isinstance(value.get("do"), str) or value["do"] not in allowed:
        raise NeolError(f"the message must be an object with do = one of {', '.join(allowed)}.")
    do = value.pop("do")
    fields = allowed[do]
    if set(value) != set(fields):
        raise NeolError(f"'{do}' takes {', '.join(fields) or 'nothing else'}.")
    for name, fits in fields.items():
        if not fits(value[name]):
            raise NeolError(f"{name} = {str(value[name])[:60]!r} is not allowed with '{do}'.")
    return Saying(do, value)


_LENGTH = struct.Struct("<I")


def pack(head: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """Length of the head (u4, little-endian), the head as JSON with the blobs' sizes, the blobs."""
    text = json.dumps({**head, "blobs": [len(b) for b in blobs]}, allow_nan=False).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *blobs])


def unpack(message: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """The head and the blobs of `pack`."""
    start = _LENGTH.size + _LENGTH.unpack_from(message)[0]
    head, blobs = json.loads(message[_LENGTH.size : start]), []
    for size in head.pop("blobs"):
        blobs.append(message[start : start + size])
        start += size
    return head, blobs


def framed(message: bytes) -> bytes:
    """For a pipe: its length first."""
    return _LENGTH.pack(len(message)) + message


def frame_length(prefix: bytes) -> int:
    return int(_LENGTH.unpack(prefix)[0])
