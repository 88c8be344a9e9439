"""TensorBoard event files, on request (`pip install neol[tensorboard]`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from neol.errors import NeolError
from neol.training.observers import Generation, Observer, Started
from neol.training.run import Run


class TensorBoard(Observer):
    """Writes the history's columns as scalars over env steps."""

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise NeolError(
                "tensorboard = true needs a package; install it with: pip install 'neol[tensorboard]'."
            ) from None
        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        for old in (folder / "tensorboard").glob("events.out.tfevents.*"):
            old.unlink()  # the history has it all: a resume writes it again, so that nothing is lost or twice
        self._writer = EventFileWriter(str(folder / "tensorboard"))

    def started(self, start: Started) -> None:
        for row in start.before:
            self._write(row.columns())

    def generation(self, done: Generation) -> None:
        self._write(done.row)

    def finished(self, run: Run | None) -> None:
        self._writer.close()

    def _write(self, row: Mapping[str, float]) -> None:
        values = [self._summary.Value(tag=f"neol/{k}", simple_value=float(v)) for k, v in row.items()]
        self._writer.add_event(self._event(step=int(row["env_steps"]), summary=self._summary(value=values)))
        self._writer.flush()
