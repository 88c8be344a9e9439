"""`neol finetune`: the weights of a champion's own topology, trained by PPO or SAC; and runs that evolve one first."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from neol.baselines.sbx import require_packages
from neol.envs.registry import Maker
from neol.errors import NeolError
from neol.files import as_path
from neol.gradients import settings as finetune_settings
from neol.gradients.settings import FinetuneConfig, finetune_config
from neol.jit import announce_compilation
from neol.training import run_folder
from neol.training.configure import check_word, resolve
from neol.training.observers import NOTE, Event, Observer, Observers, check_observers
from neol.training.progress import TrainingProgress, wanted_here
from neol.training.run import Run
from neol.training.session import run_to_end
from neol.training.start import kept_start

LEAST = 200_000  # env steps: the usual budget is as many as the run took, but so many at least
UNENDING = 10**9  # generations: the budget is env steps


def finetune(
    run: Run | str | os.PathLike[str],
    algorithm: str = "ppo",
    task: str | Maker | None = None,
    *,
    max_env_steps: int | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    interval: int = 0,
    hyperparameters: Mapping[str, Any] | None = None,
    observers: Sequence[Observer] = (),
    progress: bool | None = None,
    trust: bool = False,
    **settings: Any,
) -> Run:
    """Train the weights and biases of a run's champion by gradients: `algorithm` is ppo or sac, of SBX.

    Its nodes and connections stay as they are. The result is a run of its own in `out` (by default RUN-ppo or RUN-sac
    beside it), with a champion.json like any other's. The champion that it began from is a candidate for the new one
    and plays as many fresh episodes as the best, so that the better is kept; the summary has both returns on the same
    episodes. `max_env_steps`: of this run alone; by default as many as the run took, at least 200,000.
    `interval`: env steps between checkpoints. `hyperparameters` replace ours by name. `settings` are the run's own,
    where you say nothing: seed, max_steps, champion_trials ... `task` is only needed where it was a function. `trust`:
    an environment that the run's folder names as `module:name` may be imported.
    """
    of = run if isinstance(run, Run) else Run(run, trust)
    if not (trust or of.trusted):
        check_word(of.config.flat(), {*settings, *({"task"} if task else ())}, f"'{of.path / run_folder.CONFIG}'")
    of.champion  # noqa: B018  a run that has none says so
    steps = max(LEAST, int(of.history["env_steps"][-1])) if max_env_steps is None else max_env_steps
    own = {"start": str(of.path), "max_env_steps": steps, "generations": UNENDING, **settings}
    resolved = resolve(of.config.replace(**own), task)
    config = finetune_config(resolved.config, resolved.task, algorithm, 0.0, interval, hyperparameters)
    folder = Path(out) if out is not None else finetuned_folder(of.path, algorithm)
    return train_config(config, folder, resume, overwrite, observers, progress, task)


def train_config(
    config: FinetuneConfig,
    out: str | os.PathLike[str],
    resume: bool = False,
    overwrite: bool = False,
    observers: Sequence[Observer] = (),
    progress: bool | None = None,
    task: str | Maker | None = None,
) -> Run:
    """A run with a whole configuration, be it a champion's (evolve_share = 0) or one that evolves a network first."""
    require_packages("finetune")
    from neol.gradients.session import Finetuning, Hybrid

    told = [*check_observers(observers)]
    if wanted_here() if progress is None else progress:
        told.append(TrainingProgress())
    observer, folder = Observers(told), as_path(out, "out").absolute()
    resolved = resolve(config.evolution, task)
    with ExitStack() as stack:
        stack.enter_context(run_folder.held(folder))
        stack.enter_context(run_folder.withdrawn_if_refused(folder))
        stack.enter_context(announce_compilation(lambda text: observer.event(Event(NOTE, text))))
        resumed = open_folder(folder, config, resume, overwrite)
        if config.evolve_share:
            return run_to_end(Hybrid(config, resolved, folder, observer), resumed, observer)
        start = kept_start(folder, config.evolution, resolved.task, None, resumed)
        if start is None:
            raise NeolError("start = '' is not allowed; gradients need a champion to start from, or evolve_share.")
        return run_to_end(Finetuning(config, resolved.task, start, folder, observer), resumed, observer)


def open_folder(folder: Path, config: FinetuneConfig, resume: bool, overwrite: bool = False) -> bool:
    """Prepare the folder; whether there is a checkpoint to go on from. It must be that of the same settings."""
    if not run_folder.claim_folder(folder, config.to_toml(), resume, overwrite):
        return False
    text, source = run_folder.read_config_text(folder), f"'{folder / run_folder.CONFIG}'"
    if run_folder.FINETUNE not in text:
        raise NeolError(f"'{folder}' is not a run of `neol finetune`; give another --out.")
    stored = finetune_settings.read(text, source)
    old, new = stored.flat(), config.flat()
    free = {*run_folder.MAY_CHANGE} - ({"max_env_steps"} if stored.has_schedule else set())
    for name in new:
        if new[name] != old.get(name) and name not in free:
            what = f"'{folder}' was run with {name} = {old.get(name)}"
            why = ", and what it does depends on that" if name == "max_env_steps" else ""
            raise NeolError(f"{name} = {new[name]} is not allowed with --resume; {what}{why}.")
    return (folder / run_folder.CHECKPOINT).exists()


def finetuned_folder(path: Path, algorithm: str) -> Path:
    """Where a run's finetuned champion goes: RUN-ppo or RUN-sac beside it."""
    whole = Path(os.path.abspath(path))  # also of "."
    return (path if path.name else whole).with_name(f"{whole.name}-{algorithm}")
