#!/usr/bin/env bash
# What stands in results/studies/finetune. Resumable: start it again after a stop. About 25 minutes of one core.
# PPO's runs are those of equal-budget-1m: the same keys, so the same settings and seeds; they were taken from there.
set -euo pipefail
NEOL=${NEOL:-.venv/bin/neol}
OUT=${OUT:-runs/finetune}
"$NEOL" study run finetune --out "$OUT"
mkdir -p results/studies/finetune
"$NEOL" study export "$OUT" --database results/studies/finetune/study.sqlite
"$NEOL" report results/studies/finetune
