"""Regret beside its bound, on synthetic instances and on real rollouts."""
