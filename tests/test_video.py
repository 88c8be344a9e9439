"""Video files decode to what was written, appear whole or not at all; environments render without a screen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from neol.config.sections import NeatConfig, PlasticityConfig
from neol.envs.registry import find
from neol.envs.tasks import TASKS, Task
from neol.errors import NeolError
from neol.figures.video import render_frames, write_video
from neol.neat.genome import first_population, take
from neol.network.phenotype import Phenotypes, compile_phenotypes
from neol.rollout.gymnasium_episode import one_life
from neol.rollout.life import Life, life_of


def frames(n: int, height: int = 48, width: int = 64) -> Iterator[np.ndarray]:
    """A white bar that moves right over a ramp of blue."""
    for i in range(n):
        frame = np.zeros((height, width, 3), np.uint8)
        frame[:, :, 2] = np.linspace(0, 200, width)
        frame[:, 2 * i % width : 2 * i % width + 4] = 255
        yield frame


def network(task: Task) -> tuple[Phenotypes, Life]:
    """A network of the first generation, which learns while it lives."""
    genomes, _ = first_population(NeatConfig(pop_size=2), task.n_inputs, task.n_outputs, 5)
    life = life_of(task, PlasticityConfig(rule="hebb", lr=0.5, reward_scale=0.05))
    return compile_phenotypes(take(genomes, [0]), task.n_inputs, task.n_outputs), life


@pytest.mark.parametrize(("height", "width"), [(48, 64), (47, 63), (1, 1)])
def test_mp4_decodes(tmp_path: Path, height: int, width: int) -> None:
    import imageio.v3 as iio

    path = write_video(frames(23, height, width), tmp_path / "new" / "v.mp4", 25)
    movie = iio.imread(path, plugin="FFMPEG")
    assert movie.shape == (23, height + height % 2, width + width % 2, 3)
    meta = iio.immeta(path, plugin="FFMPEG")
    assert meta["codec"] == "h264" and meta["pix_fmt"].startswith("yuv420p") and meta["fps"] == 25
    if width > 2:
        wanted = np.stack(list(frames(23, height, width))).astype(float)
        assert abs(movie[:, :height, :width].mean(axis=3) - wanted.mean(axis=3)).mean() < 12
    assert os.listdir(path.parent) == ["v.mp4"]
    head = path.read_bytes()
    assert head.index(b"moov") < head.index(b"mdat")  # a browser may start before it has all


@pytest.mark.parametrize(
    ("n", "fps", "kept", "ms"), [(23, 10, 23, 100), (23, 50, 7, 80), (21, 50, 6, 80), (1, 30, 1, 0)]
)
def test_gif_decodes(tmp_path: Path, n: int, fps: int, kept: int, ms: int) -> None:
    from PIL import Image

    path = write_video(frames(n, 47, 63), tmp_path / "v.GIF", fps)
    with Image.open(path) as image:
        assert image.format == "GIF" and image.size == (32, 24)
        assert getattr(image, "n_frames", 1) == kept
        if kept > 1:
            assert image.info["duration"] == ms
            image.seek(kept - 1)
            last = list(frames(n, 47, 63))[-1][::2, ::2].astype(float)
            assert abs(np.asarray(image.convert("RGB")) - last).mean() < 12
    assert os.listdir(tmp_path) == ["v.GIF"]


def broken(n: int, error: BaseException) -> Iterator[np.ndarray]:
    yield from frames(n)
    raise error


@pytest.mark.parametrize("name", ["v.mp4", "v.gif"])
@pytest.mark.parametrize("error", [RuntimeError("stop"), KeyboardInterrupt()])
@pytest.mark.parametrize("n", [0, 9])
def test_interrupted_write_leaves_no_file(tmp_path: Path, name: str, error: BaseException, n: int) -> None:
    with pytest.raises(type(error)):
        write_video(broken(n, error), tmp_path / name, 10)
    assert not list(tmp_path.iterdir())
    (tmp_path / name).write_bytes(b"old")
    with pytest.raises(type(error)):
        write_video(broken(n, error), tmp_path / name, 10)
    assert os.listdir(tmp_path) == [name] and (tmp_path / name).read_bytes() == b"old"


def named(env_id: str) -> Task:
    return TASKS["cartpole"]._replace(name=env_id, id=env_id)


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(NeolError, match=r"v\.avi.*\.mp4 or \.gif"):
        write_video(frames(3), tmp_path / "v.avi", 10)
    with pytest.raises(NeolError, match="fps"):
        write_video(frames(3), tmp_path / "v.mp4", 0)
    for bad in ([], [np.zeros((4, 4, 3))], [np.zeros((4, 4), np.uint8)], [*frames(1), *frames(1, 10)]):
        for name in ("v.mp4", "v.gif"):
            with pytest.raises(ValueError, match="frames"):
                write_video(bad, tmp_path / name, 10)
    with pytest.raises(NeolError, match="unknown task or environment 'CartPol-v1'.*(cartpole|CartPole-v)"):
        next(render_frames(named("CartPol-v1"), *network(TASKS["cartpole"]), 0, 5))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("env_id", ["CartPole-v1", "LunarLanderContinuous-v3", "BipedalWalker-v3", "Hopper-v4"])
def test_environments_render(env_id: str) -> None:
    task = find(env_id)
    try:
        filmed = list(render_frames(task, *network(task), 7, 6))
    except NeolError as error:
        assert "Hopper" in env_id and "apt install libegl1" in str(error)
        pytest.skip(str(error))
    shown = [frame for _, frame in filmed]
    assert [moment.step for moment, _ in filmed] == list(range(7))
    assert all(f.dtype == np.uint8 and f.shape == shown[0].shape and f.std() > 10 for f in shown)
    assert any((f != shown[0]).any() for f in shown[1:])


@pytest.mark.parametrize("every", [1, 4])
def test_a_film_shows_the_episode_that_is_lived_without_one(every: int) -> None:
    """Same seed, same network: the same observations, actions, rewards and weights; it ends where the episode ends."""
    task = find("CartPole-v1")
    plain = list(one_life(task, *network(task), 3, 900))
    assert 10 < len(plain) < 300 and plain[-1].over
    wanted = [m for m in plain if m.step % every == 0 or m.over]
    filmed = render_frames(task, *network(task), 3, 900, every)
    for (moment, _), expected in zip(filmed, wanted, strict=True):
        assert np.array_equal(moment.observation, expected.observation)
        assert moment._replace(observation=0, weights=0) == expected._replace(observation=0, weights=0)
    assert plain[-1].total == sum(m.reward for m in plain)


def test_no_opengl_is_a_sentence() -> None:
    """In a process of its own, where MUJOCO_GL names what cannot work: EGL without any vendor's library."""
    code = (
        "from neol.errors import NeolError\nfrom neol.figures.video import render_frames\n"
        "from neol.envs.registry import find\nfrom test_video import network\ntask = find('hopper')\n"
        "try:\n    next(render_frames(task, *network(task), 0, 2))\n"
        "except NeolError as e:\n    print('NEOL', e)\n"
    )
    env = {**os.environ, "MUJOCO_GL": "egl", "__EGL_VENDOR_LIBRARY_FILENAMES": "/nowhere.json"}
    here = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300, cwd=here)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert "NEOL cannot render 'Hopper-v4'" in done.stdout and "apt install libegl1" in done.stdout
