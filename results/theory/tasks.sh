#!/bin/sh
# Regret and the audit of the assumptions on real rollouts: each rule on cartpole and lunarlander.
# The arrays (regret.npz) are left out of the repository; the same command makes them again, to the bit.
set -e
for task in cartpole lunarlander; do
  for rule in hebb oja bcm; do
    neol regret task $task --rule $rule --rounds 200 --pool 8 --seed 0 --out results/theory/$task-$rule "$@"
  done
done
