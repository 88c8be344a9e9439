"""PPO and SAC on the same tasks, budgets, seeds and run folders."""
