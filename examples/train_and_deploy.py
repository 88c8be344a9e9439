"""Evolve a pole balancer, then deploy it in a Gymnasium environment where it goes on learning.

Run: python examples/train_and_deploy.py
"""

import gymnasium

import neol

run = neol.train("cartpole", rule="hebb", pop_size=50, generations=10, seed=0, out="runs/example", resume=True)
print(f"held-out return: {run.summary.champion_return_mean:.1f}")

net = run.champion  # a neol.PlasticNetwork
env = gymnasium.make("CartPole-v1")
observation, _ = env.reset(seed=1)
net.reset()
total, over = 0.0, False
while not over:
    observation, reward, terminated, truncated, _ = env.step(net.act(observation))
    net.reward(float(reward))  # this is what it learns from
    total, over = total + float(reward), terminated or truncated
print(f"one life: return {total:.0f}")
before, after = run.champion.weights, net.weights
moved = {edge: after[edge] - before[edge] for edge in before}
edge = max(moved, key=lambda e: abs(moved[e]))
print(f"the connection that changed most: {edge[0]} -> {edge[1]}, by {moved[edge]:+.4f}")
