#!/usr/bin/env bash
# The paper's Figure 3 at its own budget, population x generations x T_max = 10 million: cartpole and lunarlander with 30 seeds, the
# walkers with 10, NEAT, BCM and its matched control before the others. The numbers of seeds were fixed before the first run.
# About 2.2 CPU hours for the first two tasks, 5 for the hopper, 7 for the bipedal walker. Resumable; where runs/ is not kept,
# it goes on from what stands in results/studies/figure3-10m. Several may run at once, on parts: they share the work.
#   results/studies/figure3-10m.sh [cartpole|lunarlander|walkers|hopper|bipedalwalker ...]
set -euo pipefail
NEOL=${NEOL:-.venv/bin/neol}
OUT=${OUT:-runs/figure3-10m}
KEPT=results/studies/figure3-10m
run() { # tasks, seeds, arms
  "$NEOL" study run paper/figure3-10m --from "$KEPT" --out "$OUT" --tasks $1 --seeds "$2" --jobs 1 "${@:3}"
}
for task in ${*:-cartpole lunarlander walkers}; do
  case $task in
    cartpole | lunarlander) run "$task" 30 ;;
    walkers) run "hopper bipedalwalker" 10 --arms neat bcm; run "hopper bipedalwalker" 10 ;;
    *) run "$task" 10 --arms neat bcm; run "$task" 10 ;;
  esac
done
"$NEOL" study export "$OUT" --database "$KEPT/study.sqlite"
"$NEOL" report "$KEPT" --lives
"${NEOL%neol}python" results/studies/claims.py
