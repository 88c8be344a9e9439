"""Outer loops: what every one of them does, evolution strategies, and Hedge over a finite pool."""
