#!/usr/bin/env bash
# What stands in results/studies/figure3-10m. Resumable: start it again after a stop. About 5 hours of one core.
set -euo pipefail
NEOL=${NEOL:-.venv/bin/neol}
OUT=${OUT:-runs/figure3-10m}
run() { "$NEOL" study run paper/figure3-10m --out "$OUT" "$@"; }
run --tasks cartpole --scale 0.25
run --tasks lunarlander --scale 0.5
run --tasks hopper --scale 0.25 --seeds 3
run --tasks bipedalwalker --scale 0.1 --seeds 3
mkdir -p results/studies/figure3-10m
"$NEOL" study export "$OUT" --database results/studies/figure3-10m/study.sqlite
"$NEOL" report results/studies/figure3-10m --lives
