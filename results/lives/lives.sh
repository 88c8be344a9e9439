#!/usr/bin/env bash
# The map: worlds that change x plastic arms x every control, seed by seed. One core of a busy machine, a run (PPO in brackets): 20 s on a
# cartpole (2 minutes), 1 minute on the lander (4), 1.5 on the hopper (16), 2 on half-cheetah (9) and ant (3.5).
# Resumable; where runs/ is not kept, it goes on from what stands in results/lives.
#   results/lives/lives.sh lunarlander|cartpole-mass|cartpole-gravity|hopper|halfcheetah-direction|ant-dead-leg
set -euo pipefail
NEOL=${NEOL:-.venv/bin/neol}
OUT=${OUT:-runs/lives}/$1
KEPT=results/lives/$1
"$NEOL" study run lives --from "$KEPT" --out "$OUT" --tasks "$1" --jobs 1
"$NEOL" study export "$OUT" --database "$KEPT/study.sqlite"
"$NEOL" report "$KEPT"
