"""What travels between this program and its own worker processes.

The only place that uses pickle, and only between processes that we started ourselves: nothing that is read from a file
or from any other process goes through here.
"""

from __future__ import annotations

import pickle
from typing import Any, BinaryIO

from neol.errors import NeolError

BROKEN = (EOFError, OSError, pickle.UnpicklingError, ValueError)  # what a channel raises when its other end has died


def send(stream: BinaryIO, message: Any) -> None:
    pickle.dump(message, stream, protocol=5)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    return pickle.load(stream)


def pack(value: Any, name: str) -> bytes:
    """Something that may hold a function: a lambda, or one of the main program, which a worker cannot import."""
    import cloudpickle

    try:
        return cloudpickle.dumps(value, protocol=5)
    except Exception as e:  # whatever the closure holds
        raise NeolError(f"'{name}' cannot be sent to a worker: {type(e).__name__}: {e}") from e


def unpack(packed: bytes) -> Any:
    return pickle.loads(packed)
