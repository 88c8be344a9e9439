#!/usr/bin/env bash
# The T-maze: does evolved plasticity learn what a life changes? About a minute of one core a run. Resumable; where runs/mazes is
# not kept, it goes on from what stands in results/studies/mazes.
set -euo pipefail
NEOL=${NEOL:-.venv/bin/neol}
OUT=${OUT:-runs/mazes}
"$NEOL" study run mazes --from results/studies/mazes --out "$OUT" --tasks tmaze --arms modulated static recurrent --seeds 10 --jobs 1
"$NEOL" study run mazes --out "$OUT" --tasks tmaze --arms modulated static recurrent senses hebb rates rewarded drawn --seeds 5 --jobs 1
"$NEOL" study run mazes --out "$OUT" --tasks double-tmaze --arms modulated static --seeds 3 --jobs 1
"$NEOL" study export "$OUT" --database results/studies/mazes/study.sqlite
