#!/usr/bin/env bash
# What stands in results/studies/equal-budget and equal-budget-1m. Resumable: start it again after a stop.
# About 1.5 hours of one core, of which SAC's two runs take more than half.
set -euo pipefail
NEOL=${NEOL:-.venv/bin/neol}
OUT=${OUT:-runs/equal-budget}
run() { "$NEOL" study run equal-budget "$@"; }
run --out "$OUT" --arms neat hebb oja bcm ppo
run --out "$OUT" --arms sac --seeds 2
run --out "$OUT-1m" --tasks lunarlander --arms neat hebb oja bcm ppo --scale 10
for name in equal-budget equal-budget-1m; do
  mkdir -p results/studies/$name
  "$NEOL" study export "$OUT${name#equal-budget}" --database results/studies/$name/study.sqlite
  "$NEOL" report results/studies/$name --lives
done
