"""The evolved network as SBX's policy: its outputs are the mean of what is done, beside a critic that is thrown away.

PPO: actions ~ N(outputs, std); a choice ~ softmax(outputs / std). SAC: actions = tanh(u), u ~ N(atanh(outputs), std),
so that the mean action is the network's own. std, a number per output (of a choice: one), is learned beside the weights
and thrown away with the critic. In PPO it also falls by itself, by exp(log_std_drop) over the run: what is deployed
acts without noise, and must not have learned to need it. Until the critic has seen `warmup` env steps the policy's
learning rate is 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from neol.gradients.jax_network import Parameters, Wiring, forward_of, outputs_of
from neol.network.phenotype import Phenotypes

EDGE = 1e-3  # SAC: outputs are kept so far from +-1, where atanh is infinite
NOISE = (-20.0, 2.0)  # SAC: bounds of log std, the library's own


class EvolvedNetwork(NamedTuple):
    """What is trained."""

    phenotype: Phenotypes  # P = 1
    wiring: Wiring
    start: Parameters  # f8
    squash: bool  # tanh on its outputs


def updates(algorithm: str, h: Mapping[str, Any], env_steps: int) -> int:
    """How many updates of the policy so many env steps bring."""
    if algorithm == "ppo":
        size = h["n_envs"] * h["n_steps"]
        return math.ceil(env_steps / size) * h["n_epochs"] * math.ceil(size / h["batch_size"])
    return math.ceil(env_steps / (h["n_envs"] * h["train_freq"])) * h["gradient_steps"]


def policy_class(algorithm: str, hyperparameters: Mapping[str, Any], env_steps: int) -> type[Any]:
    """SBX's policy with a network as its actor, for a run of so many env steps."""
    import jax
    import optax
    from flax.training.train_state import TrainState
    from sbx.ppo.policies import PPOPolicy
    from sbx.sac.policies import SACPolicy

    h = hyperparameters
    still, factor = updates(algorithm, h, h["warmup"]), h["policy_factor"]
    fall = h.get("log_std_drop", 0.0) / updates(algorithm, h, env_steps)  # of log std at each update

    def fallen(found: Any, state: Any, params: Any = None) -> Any:
        def own(path: Any, value: Any) -> Any:
            return value - fall if path[-1].key == "log_std" else value

        return jax.tree_util.tree_map_with_path(own, found), state

    def optimizer(learning_rate: Any) -> Any:
        adam = optax.adam(learning_rate, eps=1e-5)
        steps = [adam, optax.scale_by_schedule(lambda count: factor * (count >= still))]
        noise = optax.GradientTransformation(lambda _: optax.EmptyState(), fallen)
        return optax.chain(*steps, *([noise] if algorithm == "ppo" else []))

    def with_optimizer(state: Any, tx: Any) -> Any:
        return TrainState.create(apply_fn=state.apply_fn, params=state.params, tx=tx)

    class PPONetwork(PPOPolicy):
        actor_state: Any

        def build(self, key: Any, lr_schedule: Any, max_grad_norm: float) -> Any:
            key = super().build(key, lr_schedule, max_grad_norm)
            own = optax.inject_hyperparams(optimizer)(learning_rate=lr_schedule(1))
            tx = optax.chain(optax.clip_by_global_norm(max_grad_norm), own)
            self.actor_state = with_optimizer(self.actor_state, tx)
            return key

    class SACNetwork(SACPolicy):
        actor_state: Any

        def build(self, key: Any, lr_schedule: Any, qf_learning_rate: float) -> Any:
            key = super().build(key, lr_schedule, qf_learning_rate)
            tx = optax.inject_hyperparams(optimizer)(learning_rate=lr_schedule(1))
            self.actor_state = with_optimizer(self.actor_state, tx)
            return key

    return PPONetwork if algorithm == "ppo" else SACNetwork


def actor_class(algorithm: str, network: EvolvedNetwork, log_std_init: float) -> Any:
    """What makes the actor, given what SBX's policies tell theirs."""
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import tensorflow_probability.substrates.jax as tfp
    from sbx.common.distributions import TanhTransformedDistribution

    tfd, wiring, start = tfp.distributions, network.wiring, network.start
    forward = jax.vmap(forward_of(wiring), in_axes=(None, 0, 0))

    class NetworkActor(nn.Module):
        choices: int  # 0: actions are numbers

        def get_std(self) -> Any:
            return jnp.array(0.0)

        @nn.compact
        def __call__(self, seen: Any) -> Any:
            """seen f4 (B, I), or (B, I + n) where the network is recurrent."""

            def trained(name: str) -> Any:
                return self.param(name, lambda _: jnp.asarray(getattr(start, name), jnp.float32))

            own = Parameters(trained("weight"), trained("bias"), jnp.asarray(start.response, jnp.float32))
            nodes = forward(own, seen[:, : wiring.inputs], seen[:, wiring.inputs :])
            size = 1 if self.choices else len(wiring.output)
            log_std = self.param("log_std", lambda _: jnp.full(size, log_std_init))
            if self.choices:
                return tfd.Categorical(logits=outputs_of(wiring, nodes, network.squash) * jnp.exp(-log_std))
            if algorithm == "ppo":
                mean = outputs_of(wiring, nodes, network.squash)
                return tfd.MultivariateNormalDiag(loc=mean, scale_diag=jnp.exp(log_std))
            raw = outputs_of(wiring, nodes, squash=False)
            mean = raw if network.squash else jnp.arctanh(jnp.clip(raw, EDGE - 1.0, 1.0 - EDGE))
            std = jnp.broadcast_to(jnp.exp(jnp.clip(log_std, *NOISE)), mean.shape)
            return TanhTransformedDistribution(tfd.MultivariateNormalDiag(loc=mean, scale_diag=std))

    return lambda **told: NetworkActor(choices=int(told.get("num_discrete_choices") or 0))


def trained_parameters(actor_state: Any, start: Parameters) -> Parameters:
    """The network's numbers of now, f8."""
    found = actor_state.params["params"]
    weight, bias = (np.asarray(found[k], np.float64) for k in ("weight", "bias"))
    return Parameters(weight, bias, start.response)
