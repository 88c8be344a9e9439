"""`neol train`: from what the user says to a run in its folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from neol.config.schema import Config, parse_toml
from neol.envs.registry import Maker
from neol.errors import NeolError
from neol.files import as_path
from neol.jit import announce_compilation
from neol.outer.base import LoopMaker
from neol.outer.registry import loop_name
from neol.training import run_folder
from neol.training.configure import (
    PARTS_OF_BUDGET,
    Resolved,
    check_word,
    configure,
    default_folder,
    read_text,
    resolve,
)
from neol.training.loop import Training
from neol.training.observers import NOTE, Callback, Event, Generation, Observer, Observers, check_observers
from neol.training.progress import TrainingProgress, wanted_here
from neol.training.run import Run
from neol.training.session import run_to_end
from neol.training.start import kept_start
from neol.training.substrate_file import kept_substrate
from neol.training.tensorboard import TensorBoard


def train(
    task: str | Maker | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    outer: str | LoopMaker | None = None,
    callback: Callable[[Generation], Any] | None = None,
    observers: Sequence[Observer] = (),
    progress: bool | None = None,
    preset: str = "default",
    config: Config | Resolved | str | os.PathLike[str] | None = None,
    neat_config: str | os.PathLike[str] | None = None,
    trust: bool = False,
    **settings: Any,
) -> Run:
    """Evolve a controller into the folder `out` (by default one under runs/ that is named after what is trained).

    `task` is a task's name, a Gymnasium id, `module:id`, `module:callable`, or a function that makes an environment.
    Settings are the fields of `neol.Config`, by name; `config` is a whole one, or a TOML file. `outer` is an outer
    loop's name, or a class of your own (see `neol.outer.base.OuterLoop`). `resume` goes on with the run in `out` (or
    starts one), `overwrite` begins anew. `callback` is called after each generation and stops the run when it
    returns True; `observers` are told of everything. `progress` is shown in a terminal or notebook unless you say
    False. `start` is a run, a run's folder or a network file to begin from. `trust`: an environment that a file
    (`config`, or the folder's) names as `module:name` may be imported; without it name the task yourself. Ctrl-C saves
    and raises KeyboardInterrupt.
    """
    if isinstance(settings.get("start"), Run):
        settings["start"] = settings["start"].path
    if outer is not None and not isinstance(outer, str) and not callable(outer):
        raise NeolError(f"outer = {outer!r} is not allowed; it must be a loop's name, or what makes one (a class).")
    if callback is not None and not callable(callback):
        raise NeolError(f"callback = {callback!r} is not allowed; it must be a function of a Generation.")
    told: list[Observer] = [*check_observers(observers), *([Callback(callback)] if callback else [])]
    if isinstance(config, Config | Resolved) and (preset != "default" or neat_config is not None):
        given = "preset" if preset != "default" else "neat_config"
        raise NeolError(
            f"{given} is not allowed with a whole Config, which is complete; give config as a file, or none."
        )
    if outer is not None:
        settings["outer"] = outer if isinstance(outer, str) else loop_name(outer)
    if isinstance(config, Resolved):
        task, config = task or config.task.maker, config.config
    if isinstance(config, Config):
        wanted = resolve(config.replace(**settings), task)
        whole, explicit = True, set(settings)
    else:
        going_on = as_path(out, "out") if out is not None and resume else None
        wanted = configure(task, preset, config, neat_config, trust, going_on, **settings)
        explicit = ({"task"} if task else set()) | set(settings) | _named_in(config)
        whole = preset != "default" or bool(config or neat_config)
    # what was fitted to a budget stays as it was where that budget grows
    said = {k: v for k, v in wanted.config.flat().items() if k in explicit or (whole and k not in PARTS_OF_BUDGET)}
    loop = outer if callable(outer) else None
    if wanted_here() if progress is None else progress:
        told.append(TrainingProgress())
    with ExitStack() as stack:
        folder = as_path(out, "out").absolute() if out is not None else None
        if folder is None:
            folder = hold_default(stack, lambda: default_folder(wanted, preset, resume).absolute())
        else:
            stack.enter_context(run_folder.held(folder))
        gone_on_with = resume and (folder / run_folder.CONFIG).exists()
        final, resumed = run_folder.open_folder(folder, wanted.config, resume, said, overwrite)
        if gone_on_with and not trust:
            check_word(final.flat(), said, f"'{folder / run_folder.CONFIG}'")
        if not gone_on_with:
            stack.enter_context(run_folder.withdrawn_if_refused(folder))
        observer = Observers([*told, *([TensorBoard(folder)] if final.run.tensorboard else [])])
        stack.enter_context(announce_compilation(lambda text: observer.event(Event(NOTE, text))))
        resolved = resolve(final, task if callable(task) else None, loop)
        start = kept_start(folder, final, resolved.task, wanted.start, resumed)
        substrate = kept_substrate(folder, final, resolved.task, wanted.substrate, resumed)
        session = Training(resolved._replace(start=start, substrate=substrate), folder, observer)
        if not resumed:
            session.check_repeats()
        return run_to_end(session, resumed, observer)


def _named_in(file: str | os.PathLike[str] | None) -> set[str]:
    """The settings that a TOML file has."""
    return set(parse_toml(read_text(file), str(file))) if file else set()


def hold_default(stack: ExitStack, choose: Callable[[], Path]) -> Path:
    """A default folder to ourselves: where another process was quicker, the next one."""
    for _ in range(100):
        folder = choose()
        with suppress(run_folder.Busy):
            stack.enter_context(run_folder.held(folder))
            return folder
        time.sleep(0.05)
    raise NeolError(f"'{folder}' is taken again and again; give --out.")
