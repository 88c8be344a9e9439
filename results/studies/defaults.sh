#!/usr/bin/env bash
# What stands in results/studies/defaults. Resumable: start it again after a stop. About an hour of one core.
set -euo pipefail
NEOL=${NEOL:-.venv/bin/neol}
OUT=${OUT:-runs/defaults}
"$NEOL" study run defaults --out "$OUT" --scale 0.15
mkdir -p results/studies/defaults
"$NEOL" study export "$OUT" --database results/studies/defaults/study.sqlite
"$NEOL" report results/studies/defaults --lives
