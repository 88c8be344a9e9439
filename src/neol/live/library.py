"""The runs and studies below a folder: found, listed, and looked at closely where a page asks for it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from neol.errors import NeolError
from neol.figures.style import shown
from neol.files import finite
from neol.live.run_files import RUNNING, RunFiles, held_locks, read_champion
from neol.training import run_folder

DEEPEST, MOST_RUNS, MOST_STUDIES, MOST_FOLDERS = 4, 2000, 8, 20_000
MOST_CLOSE = 40  # runs whose curves are kept in memory
MOST_CELLS = 5000  # of a study's grid
PATIENCE = 1.0  # seconds to wait for a study's writer


class Library:
    """What is below a folder; every answer is plain data that JSON can hold."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        if not self.root.is_dir():
            raise NeolError(f"'{root}' is not a folder; give a run's, a study's, or one that holds runs.")
        self.runs: dict[str, RunFiles] = {}
        self.studies: dict[str, Path] = {}
        self._close: dict[str, RunFiles] = {}
        self._grids: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._networks: dict[str, tuple[Any, dict[str, Any]]] = {}
        self.whole = True  # whether all that was found is listed
        self.scan()

    # ------------------------------------------------------------ finding

    def scan(self) -> None:
        """Runs and studies as they are now; those that are known stay what they are."""
        found: dict[str, RunFiles] = {}
        studies: dict[str, Path] = {}
        self.whole = True
        for count, (folder, files) in enumerate(_walk(self.root, DEEPEST)):
            name = folder.relative_to(self.root).as_posix()
            if len(studies) < MOST_STUDIES and any(f.endswith(".sqlite") for f in files):
                from neol.studies.database import DATABASE  # not before there is one: it loads much

                if DATABASE in files:
                    studies[name] = folder
            if run_folder.CONFIG in files:
                found[name] = self.runs.get(name) or RunFiles(folder)
            if len(found) >= MOST_RUNS or count >= MOST_FOLDERS:
                self.whole = False
                break
        self.runs, self.studies = dict(sorted(found.items())), studies
        for gone in [n for n in self._close if n not in found]:
            del self._close[gone]
        self._networks = {n: v for n, v in self._networks.items() if n in found}

    # ------------------------------------------------------------ telling

    def overview(self) -> dict[str, Any]:
        """Every run in a line, every study as a grid."""
        self.scan()
        locks = held_locks()
        rows = []
        for name, run in self.runs.items():
            run.look()
            rows.append(
                {"id": name, "name": shown(name if name != "." else self.root.name, 120), **run.now(locks)._asdict()}
            )
        grids = [self._grid(name, path) for name, path in self.studies.items()]
        return finite({"root": shown(self.root, 300), "runs": rows, "studies": grids, "whole": self.whole})

    def detail(self, name: str) -> dict[str, Any] | None:
        """One run, closely; None where there is none of that name."""
        if name not in self.runs:
            return None
        run = self._close.pop(name, None) or RunFiles(self.runs[name].folder, closely=True)
        self._close[name] = run  # the last that was looked at is the last to go
        if len(self._close) > MOST_CLOSE:
            del self._close[next(iter(self._close))]
        run.look()
        title = shown(name if name != "." else self.root.name, 120)
        return {"id": name, "name": title, **run.detail(held_locks()), **self._network(name, run)}

    def champion(self, name: str) -> Path:
        """The file of a run's champion, or a NeolError."""
        run = self.runs.get(name)
        if run is None:
            raise NeolError("there is no such run.")
        path = run.folder / run_folder.CHAMPION
        if path.is_symlink() or not path.is_file():
            raise NeolError("the run has no champion.json yet.")
        return path

    def _network(self, name: str, run: RunFiles) -> dict[str, Any]:
        """The best network so far as a page draws it; made again only where the file has changed."""
        stamp = run.champion_stamp
        known = self._networks.get(name)
        if known is None or known[0] != stamp:
            told: dict[str, Any] = {"network": None, "network_note": "There is no champion.json yet."}
            if stamp is not None:
                from neol.live.scene import drawing

                try:
                    network = read_champion(run.folder)
                    said = network.document.get("metadata", {}).get("status", "")
                    told = {"network": finite(drawing(network)), "network_note": shown(said, 160)}
                except NeolError as e:
                    told["network_note"] = shown(e.sentence, 300)
            known = self._networks[name] = (stamp, told)
        return known[1]

    def _grid(self, name: str, folder: Path) -> dict[str, Any]:
        """A study's cells and their states; read again only where its database has changed."""
        from neol.studies.database import DATABASE, DONE, FAILED

        stamp = None
        with suppress(OSError):
            found = os.lstat(folder / DATABASE)
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        known = self._grids.get(name)
        if known is None or known[0] != stamp:
            known = self._grids[name] = (stamp, _read_grid(folder))
        grid = dict(known[1])
        locks = held_locks()
        cells = []
        for cell in grid["cells"]:
            run_name = f"{name}/runs/{cell['key']}" if name != "." else f"runs/{cell['key']}"
            run = self.runs.get(run_name)
            state = cell["state"]
            if state not in (DONE, FAILED) and run is not None:
                state = run.state(locks)
            cells.append({**cell, "state": state, "run": run_name if run is not None else None})
        running = sum(c["state"] == RUNNING for c in cells)
        return {**grid, "id": name, "name": shown(name if name != "." else self.root.name, 120), "cells": cells,
                "running": running}  # fmt: skip


def _walk(root: Path, depth: int) -> Iterator[tuple[Path, set[str]]]:
    """Folders with their files' names, a run's inside left out; links are not followed."""
    waiting = [(root, depth)]
    while waiting:
        folder, left = waiting.pop()
        files, below = set(), []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if not entry.name.startswith("."):
                            below.append(Path(entry.path))
                    elif entry.is_file(follow_symlinks=False):
                        files.add(entry.name)
        except OSError:
            continue
        yield folder, files
        if left and run_folder.CONFIG not in files:
            waiting += [(path, left - 1) for path in sorted(below, reverse=True)]


def _read_grid(folder: Path) -> dict[str, Any]:
    """A study's cells, read from its database without touching it; or why that is not possible."""
    from neol.studies.database import Database
    from neol.studies.study import Study

    try:
        study = Study(folder, Database(folder, PATIENCE, read_only=True))
        rows = study.rows[:MOST_CELLS]
        cells = [
            {"task": shown(r.task), "arm": shown(study.label(r.arm)), "seed": r.seed, "key": r.key, "state": r.status,
             "point": shown(json.dumps(r.point), 120) if r.point else "", "held_out": r.held_out}
            for r in rows
        ]  # fmt: skip
        return {"title": shown(study.title, 120), "cells": cells, "why": ""}
    except (NeolError, sqlite3.Error, OSError) as e:
        return {"title": "", "cells": [], "why": shown(getattr(e, "sentence", e), 300)}
