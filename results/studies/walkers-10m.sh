#!/usr/bin/env bash
# The walkers at the paper's own budget of 10 million steps, 10 seeds: first NEAT, BCM and its matched control. About 25 hours of
# one core. Resumable; where runs/walkers-10m is not kept, it goes on from what stands in results/studies/walkers-10m.
set -euo pipefail
NEOL=${NEOL:-.venv/bin/neol}
OUT=${OUT:-runs/walkers-10m}
FROM=()
[ -e "$OUT/study.sqlite" ] || FROM=(--from results/studies/walkers-10m)
"$NEOL" study run paper/figure3-10m "${FROM[@]}" --out "$OUT" --tasks hopper bipedalwalker --arms neat bcm --seeds 10 --jobs 1
mkdir -p results/studies/walkers-10m
"$NEOL" study export "$OUT" --database results/studies/walkers-10m/study.sqlite
