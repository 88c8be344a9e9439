"""Environments: what a task is, how spaces become inputs and outputs, and how any of them is found and made."""
