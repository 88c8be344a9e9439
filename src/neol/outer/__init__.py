"""Outer loops: what every one of them does, which there are, and Hedge over a finite pool."""
