"""SBX's PPO or SAC on our environments, in intervals that depend on nothing but what `state` holds.

SBX (Stable-Baselines3's algorithms in JAX) is chosen for its speed on a CPU: on these environments 1.5 to 1.9 times the
env steps per processor second of Stable-Baselines3 itself (PPO and SAC on lunarlander, SAC on hopper; about as many
with PPO on hopper). Every interval begins with fresh environments and fresh generators, whose seeds are named by (seed,
interval). So there is no simulator or generator to save, and a run that was killed goes on as if it had not been.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from neol import seeding
from neol.arrays import Array, same
from neol.baselines.policy import ARGMAX, CLIP, TANH, Policy
from neol.baselines.settings import BaselineConfig, linear_from
from neol.baselines.vec_env import PoolEnv
from neol.envs.tasks import Task
from neol.errors import NeolError
from neol.rollout.world import life_names, world_of

PACKAGES = ("jax", "sbx-rl", "stable-baselines3", "torch")
_REPLAY = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
Tick = Callable[[int], None]


def require_packages(command: str = "baseline") -> None:
    """Say what to install, where the extra is not."""
    if any(importlib.util.find_spec(name) is None for name in ("sbx", "stable_baselines3", "jax")):
        raise NeolError(
            f"neol {command} needs packages that are not installed; get them with: pip install 'neol[baselines]'."
        )


def use_threads(threads: int) -> None:
    """Tell JAX how many cores to use, where it has not started yet; never a GPU."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("NPROC", str(threads))  # the size of XLA's thread pool
    if threads == 1 and "xla_cpu_multi_thread_eigen" not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    import torch  # only its tensors are used, to carry minibatches

    torch.set_num_threads(threads)


class Learner:
    """An algorithm, its networks and optimisers, and the environments of the interval in progress."""

    def __init__(self, config: BaselineConfig, task: Task) -> None:
        use_threads(config.threads)
        from stable_baselines3.common.vec_env import VecEnv

        VecEnv.register(PoolEnv)  # it has what a VecEnv has
        self.config, self.task = config, task
        self.world = world_of(task, config.change, config.max_steps)
        self.model: Any = None
        self.env = self._environments(0)
        self._normal = self._normalized()
        self.model = self._make()

    @property
    def env_steps(self) -> int:
        return int(self.model.num_timesteps)

    def begin(self, interval: int) -> None:
        """Fresh environments and generators."""
        import jax

        self.env.close()
        self.env = self._environments(interval)
        before, self._normal = self._normal, self._normalized()
        if self._normal is not None:
            self._normal.obs_rms, self._normal.ret_rms = before.obs_rms, before.ret_rms
        self.model.set_env(self._normal or self.env)  # reset at the next step
        self.model.set_random_seed(self._seed(interval))
        self.model.key, self.model.policy.key = jax.random.split(self.model.key)
        self.model.policy.reset_noise()

    def learn(self, steps: int, tick: Tick) -> list[tuple[float, int]]:
        """At least that many env steps, to the end of an update; return and steps of each episode that ended."""

        def each(*_: Any) -> bool:
            tick(self.env_steps)
            return True

        self.model.learn(steps, callback=each, reset_num_timesteps=False, log_interval=None)
        return self.env.finished

    def policy(self) -> Policy:
        """What the networks are now, without exploration."""
        layers = self.model.policy.actor_state.params["params"]
        count = len(self.config.hyperparameters["net_arch"]) + 1  # SAC has one more, for its noise
        weights, biases = (
            tuple(np.array(layers[f"Dense_{i}"][k]) for i in range(count)) for k in ("kernel", "bias")
        )  # fmt: skip
        output = TANH if self.config.algorithm == "sac" else CLIP if self.task.action_shape else ARGMAX
        mean = var = np.zeros(0)
        if self._normal is not None:
            mean, var = self._normal.obs_rms.mean.copy(), self._normal.obs_rms.var.copy()
        return Policy(weights, biases, self.config.hyperparameters["activation"], output, mean, var)

    def state(self) -> dict[str, np.ndarray]:
        """All that the next interval depends on."""
        from jax.tree_util import tree_leaves

        model = self.model
        arrays = {"counts": np.array([model.num_timesteps, model._n_updates])}
        for name, (owner, attribute) in self._parts().items():
            leaves = tree_leaves(getattr(owner, attribute))
            arrays |= {f"{name}.{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        if self._normal is not None:
            for name, rms in (("observations", self._normal.obs_rms), ("returns", self._normal.ret_rms)):
                arrays |= {f"{name}.{k}": np.array(getattr(rms, k)) for k in ("mean", "var", "count")}
        if self.config.algorithm == "sac":
            replay = model.replay_buffer
            filled = replay.buffer_size if replay.full else replay.pos
            arrays |= {f"replay.{k}": getattr(replay, k)[:filled] for k in _REPLAY}
            arrays["replay.at"] = np.array([replay.pos, replay.full])
        return arrays

    def declared(self, found: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """What `restore` needs: shapes as in this learner, which was just made. A count of updates is a plain number of
        64 bits until the first one, and one of 32 afterwards: either is right."""
        out: dict[str, Any] = same(self.state())
        for k, spec in out.items():
            if spec.dtype in ("<i4", "<i8") and k in found and found[k].dtype.str in ("<i4", "<i8"):
                out[k] = spec._replace(dtype=found[k].dtype.str)
        out["counts"] = Array("i8", (2,), low=0)
        if self.config.algorithm == "sac":
            size = self.model.replay_buffer.buffer_size
            for k in _REPLAY:
                out[f"replay.{k}"] = out[f"replay.{k}"]._replace(shape=("filled", *out[f"replay.{k}"].shape[1:]))
            out["replay.at"] = Array("i8", (2,), low=0, high=size)
        return out

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from a state."""
        import jax.numpy as jnp
        from jax.tree_util import tree_flatten, tree_unflatten

        model = self.model
        model.num_timesteps, model._n_updates = (int(n) for n in arrays["counts"])
        for name, (owner, attribute) in self._parts().items():
            leaves, shape = tree_flatten(getattr(owner, attribute))
            saved = [jnp.asarray(arrays[f"{name}.{i}"]) for i in range(len(leaves))]
            setattr(owner, attribute, tree_unflatten(shape, saved))
        if self._normal is not None:
            for name, rms in (("observations", self._normal.obs_rms), ("returns", self._normal.ret_rms)):
                rms.mean, rms.var = arrays[f"{name}.mean"], arrays[f"{name}.var"]
                rms.count = float(arrays[f"{name}.count"])
        if self.config.algorithm == "sac":
            replay = model.replay_buffer
            for k in _REPLAY:
                getattr(replay, k)[: len(arrays[f"replay.{k}"])] = arrays[f"replay.{k}"]
            replay.pos, replay.full = int(arrays["replay.at"][0]), bool(arrays["replay.at"][1])

    def close(self) -> None:
        self.env.close()

    def _parts(self) -> dict[str, tuple[Any, str]]:
        """Where the networks with their optimisers are."""
        policy = self.model.policy
        if self.config.algorithm == "ppo":
            return {"actor": (policy, "actor_state"), "value": (policy, "vf_state")}
        temperature = (self.model, "ent_coef_state")
        return {"actor": (policy, "actor_state"), "critics": (policy, "qf_state"), "temperature": temperature}

    def _seed(self, interval: int) -> int:
        return int(seeding.episode_seeds(self.config.seed, seeding.LEARNER, interval, 1, 1, True)[0])

    def _environments(self, interval: int) -> PoolEnv:
        count = self.config.hyperparameters["n_envs"]
        seeds = seeding.episode_seeds(self.config.seed, seeding.EPISODE, interval, count, 1, False)
        names = life_names(self.config.seed, seeding.LEARNER, interval, count, 1, False)
        return PoolEnv(self.task, seeds, self.config.max_steps, self.config.threads, self.world, names)

    def _normalized(self) -> Any:
        """Observations and rewards scaled by their running statistics, where the algorithm wants that."""
        from stable_baselines3.common.vec_env import VecNormalize

        h = self.config.hyperparameters
        return VecNormalize(self.env, gamma=h["gamma"]) if h.get("normalize", False) else None

    def _schedule(self, value: Any) -> Any:
        """A number, or a line from X down to 0 at max_env_steps."""
        start = linear_from(value)
        if start is None:
            return value

        def rate(_: float) -> float:
            done = self.model.num_timesteps if self.model is not None else 0
            return start * max(0.0, 1.0 - done / self.config.max_env_steps)

        return rate

    def _make(self) -> Any:
        """The algorithm, with its first weights."""
        import flax.linen
        import sbx
        from stable_baselines3.common.logger import Logger

        h = {k: v for k, v in self.config.hyperparameters.items() if k not in ("n_envs", "normalize")}
        policy: dict[str, Any] = {
            k: h.pop(k) for k in ("net_arch", "log_std_init", "ortho_init", "activation") if k in h
        }
        policy["net_arch"] = list(policy["net_arch"])
        policy["activation_fn"] = getattr(flax.linen, policy.pop("activation"))
        for k in ("learning_rate", "clip_range"):
            if k in h:
                h[k] = self._schedule(h[k])
        make = sbx.PPO if self.config.algorithm == "ppo" else sbx.SAC
        if self.config.algorithm == "sac":  # a buffer that can never be full would only cost memory
            h["buffer_size"] = min(h["buffer_size"], self.config.max_env_steps + self.env.num_envs * h["train_freq"])
        model = make("MlpPolicy", self._normal or self.env, policy_kwargs=policy, seed=self._seed(0), verbose=0, **h)
        model.set_logger(Logger(folder=None, output_formats=[]))
        return model
