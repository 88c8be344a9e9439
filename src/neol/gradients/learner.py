"""SBX's PPO or SAC with an evolved network as the policy, in intervals that depend on nothing but `state`."""

from __future__ import annotations

from typing import Any

import numpy as np

from neol import seeding
from neol.baselines.sbx import Learner, use_threads
from neol.baselines.settings import BaselineConfig
from neol.envs.tasks import Task
from neol.gradients.actor import EvolvedNetwork, actor_class, policy_class, trained_parameters
from neol.gradients.jax_network import Parameters
from neol.gradients.memory import Memory
from neol.gradients.vec_env import NetworkEnv, simulators
from neol.network.normalization import Normalization


class NetworkLearner(Learner):
    """An algorithm, the network and its critic, and the environments of the interval in progress."""

    def __init__(
        self,
        config: BaselineConfig,
        task: Task,
        network: EvolvedNetwork,
        normal: Normalization,
        engine: str,
    ) -> None:
        use_threads(config.threads)
        from stable_baselines3.common.vec_env import VecEnv

        VecEnv.register(NetworkEnv)  # it has what a VecEnv has
        self.network, self._normalization, self._engine = network, normal, engine
        self._known: tuple[Any, Parameters] = (None, network.start)
        super().__init__(config, task)

    def parameters(self) -> Parameters:
        """The network's numbers of now, f8."""
        state = self.model.policy.actor_state
        if self._known[0] is not state:
            self._known = (state, trained_parameters(state, self.network.start))
        return self._known[1]

    def noise(self) -> float:
        """The mean standard deviation that it explores with."""
        return float(np.exp(np.asarray(self.model.policy.actor_state.params["params"]["log_std"])).mean())

    def policy(self) -> Any:
        raise NotImplementedError("a network is no Policy; see `parameters`")

    def _environments(self, interval: int) -> Any:
        count = self.config.hyperparameters["n_envs"]
        seeds = seeding.episode_seeds(self.config.seed, seeding.EPISODE, interval, count, 1, False)
        n, memory = self.network, None
        if n.wiring.remembers:
            memory = Memory(n.phenotype, n.wiring.limit, count)
        inside = simulators(self.task, self._engine, seeds, self.config.max_steps)
        return NetworkEnv(inside, self.task, self._normalization, memory, self.parameters)

    def _normalized(self) -> Any:
        """Rewards scaled by the running spread of returns; observations are as the network is used to."""
        from stable_baselines3.common.running_mean_std import RunningMeanStd
        from stable_baselines3.common.vec_env import VecNormalize

        h = self.config.hyperparameters
        if not h.get("normalize", False):
            return None
        scaled: Any = VecNormalize(self.env, norm_obs=False, gamma=h["gamma"])
        scaled.obs_rms = RunningMeanStd(shape=())  # it has none then; `state` saves one
        return scaled

    def _make(self) -> Any:
        import flax.linen
        import sbx
        from stable_baselines3.common.logger import Logger

        own = (
            "n_envs",
            "normalize",
            "policy_factor",
            "warmup",
            "log_std_init",
            "log_std_drop",
            "net_arch",
            "activation",
        )
        whole, algorithm = self.config.hyperparameters, self.config.algorithm
        h = {k: self._schedule(v) if k in ("learning_rate", "clip_range") else v for k, v in whole.items()}
        h = {k: v for k, v in h.items() if k not in own}

        class WarmSAC(sbx.SAC):
            """Acts by its policy from the first step on: that knows more than chance."""

            def _sample_action(self, learning_starts: int, action_noise: Any = None, n_envs: int = 1) -> Any:
                return super()._sample_action(0, action_noise, n_envs)

        if algorithm == "sac":  # a buffer that can never be full would only cost memory
            most = self.config.max_env_steps + self.env.num_envs * h["train_freq"]
            h["buffer_size"] = min(h["buffer_size"], most)
        policy = {
            "net_arch": list(whole["net_arch"]),
            "activation_fn": getattr(flax.linen, whole["activation"]),
            "actor_class": actor_class(algorithm, self.network, whole["log_std_init"]),
        }
        kind = policy_class(algorithm, whole, self.config.max_env_steps)
        make = sbx.PPO if algorithm == "ppo" else WarmSAC
        model = make(kind, self._normal or self.env, policy_kwargs=policy, seed=self._seed(0), verbose=0, **h)
        model.set_logger(Logger(folder=None, output_formats=[]))
        return model
