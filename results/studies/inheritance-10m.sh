#!/usr/bin/env bash
# Lamarckian against Darwinian inheritance at the budget of the paper's Figure 3: lunarlander with 30 seeds, hopper with 10, fixed before the
# first run. About 3 hours of one core for the lander, 5 for the hopper. Resumable; it goes on from what stands in results/studies/inheritance-10m.
# NEAT, Lamarckian Hebb and the Lamarckian control are runs of Figure 3, taken from results/studies/figure3-10m as far as they are there.
#   results/studies/inheritance-10m.sh [lunarlander|hopper ...]
set -euo pipefail
NEOL=${NEOL:-.venv/bin/neol}
OUT=${OUT:-runs/inheritance-10m}
KEPT=results/studies/inheritance-10m
for task in ${*:-lunarlander hopper}; do
  seeds=30
  [ "$task" = lunarlander ] || seeds=10
  "$NEOL" study run paper/inheritance-10m --from "$KEPT" --from results/studies/figure3-10m --out "$OUT" --tasks "$task" --seeds $seeds --jobs 1
done
"$NEOL" study export "$OUT" --database "$KEPT/study.sqlite"
"$NEOL" report "$KEPT"
"${NEOL%neol}python" results/studies/claims.py
