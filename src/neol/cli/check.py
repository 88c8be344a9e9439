"""`neol check`: options and what it prints."""

from __future__ import annotations

import argparse
import json
import mmap
import os
import select
import signal
import sys
import time
import traceback
from contextlib import redirect_stdout
from typing import BinaryIO, NoReturn

from neol.config.schema import check_value, field_choices
from neol.envs.tasks import TASKS
from neol.errors import EXIT_BAD_INPUT, EXIT_FAILED_RUNS, EXIT_INTERRUPTED, NeolError
from neol.files import finite
from neol.system import die_with_parent


def check_options(p: argparse.ArgumentParser) -> None:
    names = f"{', '.join(TASKS)}, a Gymnasium id, module:id, or module:callable"
    p.add_argument("env", metavar="ENV", help=names)
    p.add_argument("--env-kwargs", nargs="+", default=(), metavar="KEY=VALUE", help="arguments of the environment")
    p.add_argument("--engine", choices=field_choices("engine"), default="auto", help="simulator (auto)")
    p.add_argument("--steps", type=int, default=10_000, metavar="N", help="random actions to try (10,000)")
    p.add_argument(
        "--step-timeout", type=float, default=60.0, metavar="X", help="seconds that a call may take; 0 = no limit (60)"
    )
    p.add_argument("--json", action="store_true", help="print JSON")


def check_command(args: argparse.Namespace) -> int:
    """In a process of its own, which the environment may end or bring to a halt."""
    check_value("step_timeout", args.step_timeout)
    sys.stdout.flush()
    beat, (ours, theirs) = mmap.mmap(-1, 8), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        _look(args, beat, theirs)
    os.close(theirs)
    with open(ours, "rb") as pipe:
        hung = _watch(pipe, beat, args.step_timeout)
        if hung:
            os.kill(child, signal.SIGKILL)
        said = pipe.read().decode("utf-8", "replace")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    kind, _, text = said.partition("\n")
    if kind == "refused":
        raise NeolError(text)
    if kind != "report":
        _ended(args, hung, code)
        return EXIT_FAILED_RUNS
    print(text)
    return code


def _look(args: argparse.Namespace, beat: mmap.mmap, out: int) -> NoReturn:
    """The child: check, and write what came of it."""
    code = EXIT_BAD_INPUT
    try:
        die_with_parent(os.getppid())
        from neol.rollout.check_environment import check

        def tick() -> None:
            beat[:8] = ((int.from_bytes(beat[:8], "little") + 1) % 2**63).to_bytes(8, "little")

        with redirect_stdout(open(2, "w", closefd=False)):  # what the environment prints
            report = check(args.env, args.env_kwargs, args.engine, args.steps, beat=tick)
        text = json.dumps(finite(report.as_dict()), indent=1) if args.json else str(report)
        said, code = f"report\n{text}", 0 if report.ok else EXIT_FAILED_RUNS
    except NeolError as e:
        said = f"refused\n{e.sentence}"
    except KeyboardInterrupt:
        os._exit(EXIT_INTERRUPTED)
    except BaseException:  # an error of ours
        traceback.print_exc()
        os._exit(EXIT_FAILED_RUNS)
    with open(out, "wb") as pipe:
        pipe.write(said.encode("utf-8", "backslashreplace"))
    sys.stderr.flush()
    os._exit(code)


def _watch(pipe: BinaryIO, beat: mmap.mmap, timeout: float) -> bool:
    """Wait until the child has something to say, or is gone; whether it made no step for too long."""
    last, since = b"", time.monotonic()
    while not select.select([pipe], [], [], 0.2)[0]:
        if beat[:8] != last:
            last, since = beat[:8], time.monotonic()
        elif timeout and last != bytes(8) and time.monotonic() - since > timeout:  # it has begun
            return True
    return False


def _ended(args: argparse.Namespace, hung: bool, code: int) -> None:
    """The environment ended the process, or had to be ended: that is what was found out."""
    if code == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    how = f"signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"exit code {code}"
    why = f"a call of it took longer than {args.step_timeout:g} s" if hung else f"it ended its process with {how}"
    what = "hangs" if hung else "ends-process"
    if args.json:
        finding = {"level": "error", "what": what, "text": f"{why}."}
        print(json.dumps({"environment": args.env, "ok": False, "findings": [finding]}, indent=1))
    else:
        print(f"{args.env}: it cannot be trained on: {why}.")
