"""What recurrent networks remember while SBX plays them: the values of their nodes one step ago, by our own kernels."""

from __future__ import annotations

import numpy as np

from neol.gradients.jax_network import Parameters
from neol.jit import kernel
from neol.network.phenotype import Phenotypes
from neol.network.step import forward, load, new_slots


class Memory:
    """B lives of one network: `values` f8 (B, n) are its nodes after the last pass, 0 where a life has just begun."""

    def __init__(self, phenotype: Phenotypes, limit: float, count: int) -> None:
        self._ph, self._limit = phenotype, limit
        self._slots = new_slots(phenotype, count)
        for b in range(count):
            load(phenotype, self._slots, b, 0)
        self._nodes = slice(phenotype.inputs, phenotype.inputs + len(phenotype.node_id))

    @property
    def values(self) -> np.ndarray:
        return self._slots.value[:, self._nodes]

    def use(self, parameters: Parameters) -> None:
        """From now on with these numbers."""
        self._slots.weight[:] = parameters.weight
        self._ph = self._ph._replace(bias=np.asarray(parameters.bias, np.float64))

    def see(self, observations: np.ndarray) -> None:
        """A pass of every life. observations f8 (B, I)."""
        _see(self._ph, self._slots, observations, self._limit)

    def forget(self, lives: np.ndarray) -> None:
        """These lives, i8 (k,), begin anew."""
        self._slots.value[lives] = 0.0


@kernel
def _see(ph, slots, observations, limit):
    for b in range(len(observations)):
        forward(ph, slots, b, observations[b], limit)
