"""Gradients on evolved networks: a champion's own topology in JAX, trained by SBX's PPO or SAC."""
