"""A stage: one life, or two with the same seed, played at a pace, with pictures where the simulator has any."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from neol.config.schema import check_value, field_choices
from neol.deploy.evaluation import fitting_task
from neol.deploy.plastic_network import PlasticNetwork
from neol.envs.registry import close, make
from neol.errors import NeolError
from neol.figures.style import shown
from neol.figures.video import first_picture, make_pictured, picture
from neol.files import finite
from neol.live.living import LiveLife
from neol.live.scene import drawing
from neol.network.plasticity import LOCAL
from neol.rollout.attributes import read

FRAMES = 30.0  # a second, at most
SHARE = 0.26  # of a core, at normal speed: what the server and the page need comes on top
FAST_SHARE = 0.8  # at a higher speed
SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
MOST_STEPS = 400  # between two frames
LONGEST = 100_000  # steps of a trial
QUALITY = 80  # of JPEG
WIDEST = 640  # pixels of a picture
# Attributes that environments have, as changes of the world with a value to start from.
OFFERED = (  # name, where it is read, the change with its value, times what it was
    ("gravity", "world.gravity[1]", "env world.gravity=[0,{}]", 0.5),
    ("gravity", "model.opt.gravity[2]", "env model.opt.gravity[2]={}", 0.5),
    ("gravity", "gravity", "env gravity={}", 2.0),
    ("side wind", "world.gravity[1]", "env world.gravity=[2,{}]", 1.0),  # a steady push, as if down were tilted
    ("side wind", "model.opt.gravity[0]", "env model.opt.gravity[0]=-2", 1.0),
    ("pole length", "length", "env length={}", 2.0),
    ("force", "force_mag", "env force_mag={}", 0.5),
)


class LifeStage:
    """Lives of one network side by side; the first learns as it was trained to, the second is frozen."""

    def __init__(self, net: PlasticNetwork, trust: bool = False) -> None:
        self.net, self.task = net, fitting_task(net, trust=trust)
        document = net.network.document
        said = document["metadata"].get("max_steps") if isinstance(document.get("metadata"), Mapping) else None
        longest = said if isinstance(said, int) and not isinstance(said, bool) and said > 0 else self.task.max_steps
        self.longest = min(longest, LONGEST)
        trained = document.get("life", {})
        trained = trained if isinstance(trained, Mapping) else {}
        self.trials = check_value("trials", trained.get("trials", 1))
        self.trained_in = tuple(check_value("change", trained.get("change", ())))
        self.why_no_pictures = ""
        self.seed, self.speed, self.playing = 0, 1.0, True
        self.lives: list[LiveLife] = []
        self._due, self._owed, self._cost = 0.0, 0.0, 0.01
        self.set_lives(1)

    # ------------------------------------------------------------ what the page may ask for

    def set_lives(self, count: int) -> None:
        """One life, or two: all begin anew."""
        while len(self.lives) > count:
            close(self.lives.pop().env)
        while len(self.lives) < count:
            env, first = self._make()
            try:
                life = LiveLife(self.net, self.task, env, self.longest, self.trials)
            except BaseException:
                close(env)
                raise
            if not first:
                life.learn_by(rule="none")
            self.lives.append(life)
        self.reset(self.seed)

    def reset(self, seed: int) -> None:
        """All lives begin anew, in the world that the network was trained in."""
        self.seed = seed
        with self._told():
            for life in self.lives:
                life.begin(seed, self.trained_in)
        self._due = self._owed = 0.0

    def change(self, text: str) -> None:
        """In the world of all lives, from now on."""
        for life in self.lives:
            life.change(text)

    def end_change(self, place: int) -> None:
        for life in self.lives:
            if not 0 <= place < len(life.texts):
                raise NeolError(f"change {place} is not there; there are {len(life.texts)}.")
            if life.is_on(place):
                life.end_change(place)

    def learn_by(self, which: int, settings: Mapping[str, Any]) -> None:
        if not 0 <= which < len(self.lives):
            raise NeolError(f"life {which} is not there; there are {len(self.lives)}.")
        self.lives[which].learn_by(**settings)

    def step(self) -> None:
        """One step of every life, whatever the pace."""
        with self._told():
            for life in self.lives:
                life.step()

    # ------------------------------------------------------------ pace

    @property
    def over(self) -> bool:
        return all(life.over for life in self.lives)

    @property
    def steps_per_second(self) -> float:
        return self.task.film_fps * self.task.film_every * self.speed

    def wait(self, now: float) -> float | None:
        """Seconds until the next frame is due; None = nothing is to come."""
        return None if self.over or not self.playing else max(0.0, self._due - now)

    def advance(self, now: float) -> None:
        """The steps until this frame, and when the next is due: so that a share of one core is enough."""
        share = SHARE if self.speed <= 1.0 else FAST_SHARE
        interval = max(1.0 / FRAMES, self._cost / share)
        self._owed = min(self._owed + interval * self.steps_per_second, MOST_STEPS)
        self._due = max(self._due + interval, now)
        for _ in range(int(self._owed)):
            self._owed -= 1.0
            self.step()
            if self.over:
                break

    @contextmanager
    def measured(self) -> Iterator[None]:
        """What a frame costs, in seconds of this process: pictures are as frequent as `SHARE` allows."""
        before = time.process_time()
        yield
        self._cost += 0.2 * (time.process_time() - before - self._cost)

    # ------------------------------------------------------------ what the page is told

    def describe(self) -> dict[str, Any]:
        """All that stays the same."""
        names = {"inputs": [shown(n) for n in self.task.inputs], "outputs": [shown(n) for n in self.task.actions]}
        rules = [r for i, r in enumerate(field_choices("rule")) if i < len(LOCAL) or r == self.net.settings.rule]
        return {
            "task": shown(self.task.name), "network": drawing(self.net.network), **names, "rules": rules,
            "weight_limit": self.net.settings.weight_limit, "longest": self.longest, "trials": self.trials,
            "speeds": SPEEDS, "offered": self._offered(), "pictures": not self.why_no_pictures,
            "why_no_pictures": self.why_no_pictures, "trained_rule": self.net.settings.rule,
            "steps_per_second": self.task.film_fps * self.task.film_every,
        }  # fmt: skip

    def frame(self) -> tuple[dict[str, Any], list[bytes]]:
        """The moment: numbers, and a JPEG of each life where there are pictures."""
        lives, pictures = [], []
        for life in self.lives:
            now = life.now
            lives.append({
                "trial": now.trial, "step": now.step, "reward": now.reward, "total": now.total, "over": now.over,
                "values": _short(now.values), "weights": _short(now.weights), "action": _short(now.action),
                "rule": life.settings.rule, "lr": life.settings.lr,
            })  # fmt: skip
            if not self.why_no_pictures:
                pictures.append(self._jpeg(life))
        first = self.lives[0]
        changes = [{"text": t, "on": first.is_on(i)} for i, t in enumerate(first.texts)]
        state = {"seed": self.seed, "speed": self.speed, "playing": self.playing, "over": self.over}
        return finite({"lives": lives, "changes": changes, **state}), [p for p in pictures if p]

    def _offered(self) -> list[dict[str, str]]:
        """Attributes of this environment that are worth a switch."""
        env = self.lives[0].env
        inner = getattr(env, "unwrapped", env)
        out: dict[str, str] = {}
        for name, path, text, factor in OFFERED:
            with suppress(Exception):  # it has none
                out.setdefault(name, text.format(f"{float(read(inner, path)) * factor:.4g}"))
        return [{"name": name, "text": text} for name, text in out.items()]

    # ------------------------------------------------------------ environments and pictures

    def _make(self) -> tuple[Any, bool]:
        """An environment, with pictures where that works; and whether it is the first."""
        first = not self.lives
        if self.task.native:
            self.why_no_pictures = f"'{self.task.name}' has no pictures."
        if not self.why_no_pictures:
            env = None
            try:
                env = make_pictured(self.task)
                env.reset(seed=0)
                first_picture(env, self.task)
                return env, first
            except NeolError as e:
                self.why_no_pictures = shown(e.sentence, 300)
            except Exception as e:  # whatever the environment's own code raises
                self.why_no_pictures = shown(f"{type(e).__name__}: {e}", 300)
            if env is not None:
                close(env)
        return make(self.task), first

    def _jpeg(self, life: LiveLife) -> bytes:
        from PIL import Image

        try:
            pixels = picture(life.env, self.task)
        except NeolError as e:
            self.why_no_pictures = shown(e.sentence, 300)
            return b""
        image, out = Image.fromarray(np.ascontiguousarray(pixels)), io.BytesIO()
        if image.width > WIDEST:
            image.draft("RGB", (WIDEST, WIDEST))
            image = image.resize((WIDEST, round(image.height * WIDEST / image.width)))
        image.save(out, "JPEG", quality=QUALITY)
        return out.getvalue()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What an environment raises, as a sentence."""
        try:
            yield
        except NeolError:
            raise
        except Exception as e:
            self.playing = False
            raise NeolError(f"an episode of '{self.task.name}' failed: {type(e).__name__}: {e}") from e

    def close(self) -> None:
        for life in self.lives:
            close(life.env)


def _short(values: Any) -> list[float]:
    """Numbers as a page needs them: six digits."""
    return [float(f"{float(v):.6g}") for v in values]
