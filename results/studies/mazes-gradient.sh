#!/usr/bin/env bash
# The T-maze by gradient: differentiable plasticity beside the evolved arms of mazes.sh. About 20 s of one core a run. Resumable.
set -euo pipefail
NEOL=${NEOL:-.venv/bin/neol}
OUT=${OUT:-runs/mazes-gradient}
"$NEOL" study run mazes --from results/studies/mazes-gradient --out "$OUT" --tasks tmaze --arms gradient --seeds 10 --jobs 1
"$NEOL" study run mazes --out "$OUT" --tasks tmaze --arms gradient-static gradient-recurrent --seeds 2 --jobs 1
"$NEOL" study export "$OUT" --database results/studies/mazes-gradient/study.sqlite
