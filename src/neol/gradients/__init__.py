"""Gradients, in JAX: a champion's own topology trained by PPO or SAC, and plasticity learned through whole lives."""
