#!/usr/bin/env bash
# NEAT, NEAT-ES and HyperNEAT at 500,000 steps, 5 seeds, four tasks. About 40 minutes of one core; goes on from what stands in results/.
set -euo pipefail
NEOL=${NEOL:-.venv/bin/neol}
OUT=${OUT:-runs/relatives}
"$NEOL" study run relatives --from results/studies/relatives --out "$OUT" --jobs 1
"$NEOL" study export "$OUT" --database results/studies/relatives/study.sqlite
"$NEOL" report results/studies/relatives
