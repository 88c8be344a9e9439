"""An evolution strategy over the weights and biases (and all other searchable genes) of one topology."""

from __future__ import annotations

from neol.outer.neat_es import NeatEsLoop


class EsLoop(NeatEsLoop):
    """NEAT-ES whose topology is given and is never challenged."""

    grows = False
