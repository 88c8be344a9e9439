"""Moving pictures of an episode: frames from a Gymnasium environment, and the file they are written to."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from neol.envs.registry import make, opened
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.figures.style import MUTED, NEGATIVE, POSITIVE
from neol.files import check_suffix, replacing
from neol.network.phenotype import Phenotypes
from neol.rollout.gymnasium_episode import Moment, one_life
from neol.rollout.life import Life

SUFFIXES = (".mp4", ".gif")
GIF_FPS = 15  # a GIF keeps every k-th frame, so that it shows at most so many a second
GIF_COLORS = 128


# ---------------------------------------------------------------- writing


def write_video(frames: Iterable[np.ndarray], path: str | os.PathLike[str], fps: int) -> Path:
    """Write uint8 HxWx3 frames as they come to `.mp4` (H.264, for browsers) or `.gif` (half size, fewer frames).

    The file appears when it is complete: an interrupted write leaves the old file, or none.
    """
    if fps < 1:
        raise NeolError(f"fps must be at least 1, not {fps}.")
    target = check_suffix(path, SUFFIXES)
    with replacing(target) as part:
        write = _write_mp4 if part.suffix.lower() == ".mp4" else _write_gif
        write(_checked(frames), part, fps)
    return target


def _checked(frames: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """The same frames; an error if there are none, or one is not an image of the first one's size."""
    first: tuple[int, ...] | None = None
    for frame in frames:
        first = first or frame.shape
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or frame.shape != first:
            raise ValueError(f"frames must be uint8 {first} (height, width, 3), not {frame.dtype} {frame.shape}")
        yield frame
    if first is None:
        raise ValueError("there are no frames to write")


def _write_mp4(frames: Iterator[np.ndarray], path: Path, fps: int) -> None:
    """4:2:0 halves the colour planes, so odd sizes grow by one repeated row or column."""
    import imageio_ffmpeg

    first = next(frames)
    odd = ((0, first.shape[0] % 2), (0, first.shape[1] % 2), (0, 0))
    size = (first.shape[1] + odd[1][1], first.shape[0] + odd[0][1])
    options = ["-crf", "20", "-preset", "fast", "-movflags", "+faststart", "-threads", "2"]
    writer = imageio_ffmpeg.write_frames(
        str(path), size, fps=fps, codec="libx264", pix_fmt_out="yuv420p", quality=None,
        macro_block_size=2, ffmpeg_log_level="error", output_params=options,
    )  # fmt: skip
    count = 0
    with closing(writer):
        writer.send(None)
        for frame in chain([first], frames):
            writer.send(np.ascontiguousarray(np.pad(frame, odd, mode="edge")))
            count += 1
    # The writer does not tell how ffmpeg ended (a full disk, say), so look at what it left.
    if not path.is_file() or imageio_ffmpeg.count_frames_and_secs(str(path))[0] != count:
        raise OSError(f"ffmpeg could not write all {count} frames to '{path.parent}'")


def _write_gif(frames: Iterator[np.ndarray], path: Path, fps: int) -> None:
    from PIL import Image

    stride = math.ceil(fps / GIF_FPS)

    def small() -> Iterator[Any]:
        """Every stride-th frame and the last, halved, each with its own palette, undithered as that packs better."""
        index, frame = -1, None
        for index, frame in enumerate(frames):
            if index % stride == 0:
                yield shrink(frame)
        if index % stride:
            yield shrink(frame)

    def shrink(frame: Any) -> Any:
        return Image.fromarray(frame).reduce(2).quantize(GIF_COLORS, dither=Image.Dither.NONE)

    images = small()
    first = next(images)
    step = round(1000 * stride / fps)  # milliseconds
    first.save(path, format="GIF", save_all=True, append_images=images, duration=step, loop=0, optimize=False)


def side_by_side(learning: np.ndarray, frozen: np.ndarray, changed: bool) -> np.ndarray:
    """Two frames uint8 (H, W, 3) of a network and its frozen twin, with what they are called above them."""
    from PIL import Image, ImageDraw, ImageFont

    height, width = learning.shape[:2]
    band, gap = max(30, height // 8), 8
    page = Image.new("RGB", (2 * width + gap, height + band), "white")
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(band * 0.6)
    texts = ("goes on learning", "frozen at the change" if changed else "about to be frozen")
    for i, (frame, text, color) in enumerate(zip((learning, frozen), texts, (POSITIVE, NEGATIVE), strict=True)):
        left = i * (width + gap)
        page.paste(Image.fromarray(frame), (left, band))
        draw.text(
            (left + width / 2, band / 2), text, fill=color if changed or i == 0 else MUTED, font=font, anchor="mm"
        )
    return np.asarray(page)


# ---------------------------------------------------------------- rendering


def render_frames(
    task: Task, phenotype: Phenotypes, life: Life, seed: int, max_steps: int, every: int = 1, trials: int = 1
) -> Iterator[tuple[Moment, np.ndarray]]:
    """Live one life; yield every k-th moment and the last, the first one before any step, with a captioned frame."""
    with opened(make_pictured(task)) as env:
        for moment in one_life(task, phenotype, life, seed, max_steps, every, env, trials):
            frame = picture(env, task) if moment.step or moment.trial else first_picture(env, task)
            yield moment, _caption(frame, moment.step, moment.total, moment.trial + 1 if trials > 1 else 0)


def make_pictured(task: Task) -> Any:
    """The environment, made to draw without a screen."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform.startswith("linux") and not screen:
        # GLFW, MuJoCo's default, needs a screen; and once it has failed, MuJoCo aborts the process at the next try.
        os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        return make(task, render_mode="rgb_array")
    except NeolError as error:
        hint = f" (MUJOCO_GL={os.environ['MUJOCO_GL']})" if "mujoco" in str(error).lower() else ""
        raise NeolError(f"{error}{hint}") from error


def first_picture(env: Any, task: Task) -> np.ndarray:
    """The first frame. MuJoCo sets up OpenGL here, which fails where its libraries are not installed."""
    if ".mujoco" not in type(env.unwrapped).__module__:
        return picture(env, task)
    backend = os.environ.get("MUJOCO_GL", "")
    try:
        if backend in ("egl", "osmesa"):  # Gymnasium's viewer prints a traceback of its own if this fails within it
            import_module(f"mujoco.{backend}").GLContext(8, 8).free()
        env.unwrapped.model.vis.quality.shadowsize = 1024  # of 4096: in software it takes half the time, looks alike
        return env.render()
    except Exception as error:  # PyOpenGL, GLFW and MuJoCo each have their own, some plain AttributeErrors
        raise NeolError(
            f"cannot render '{task.id}': no OpenGL through MUJOCO_GL={backend} ({str(error).rstrip('.')}); "
            "install Mesa's EGL (Debian, Ubuntu: apt install libegl1 libgl1 libgl1-mesa-dri) and set MUJOCO_GL=egl."
        ) from error


def picture(env: Any, task: Task) -> np.ndarray:
    """A frame uint8 (H, W, 3), or a NeolError: not every environment has pictures."""
    try:
        frame = env.render()
    except Exception as e:  # whatever the environment's own code raises
        why = "it has no pictures" if isinstance(e, NotImplementedError) else f"{type(e).__name__}: {e}"
        raise NeolError(f"'{task.name}' cannot be filmed: {why}.") from e
    if not (isinstance(frame, np.ndarray) and frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3):
        what = f"{frame.dtype} {frame.shape}" if isinstance(frame, np.ndarray) else type(frame).__name__
        raise NeolError(f"'{task.name}' cannot be filmed: render() returned {what}, not uint8 (height, width, 3).")
    return frame


def _caption(frame: np.ndarray, step: int, total: float, trial: int = 0) -> np.ndarray:
    """The frame with step and return so far in its upper left corner, of a size that a GIF's halving leaves legible."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.fromarray(np.ascontiguousarray(frame))
    size = max(10, frame.shape[0] // 21)
    pen = ImageDraw.Draw(image, "RGBA")
    text = f"trial {trial}   " * (trial > 0) + f"step {step}   return {total:.1f}"
    font, pad = ImageFont.load_default(size), size // 3
    x0, y0, x1, y1 = pen.textbbox((2 * pad, 2 * pad), text, font=font, anchor="la")
    pen.rounded_rectangle((x0 - pad, y0 - pad, x1 + pad, y1 + pad), radius=pad, fill=(20, 20, 20, 190))
    pen.text((2 * pad, 2 * pad), text, font=font, fill=(255, 255, 255, 255), anchor="la")
    return np.asarray(image)
