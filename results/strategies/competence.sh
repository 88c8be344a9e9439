#!/usr/bin/env bash
# Evolution strategies as they are shipped: held-out returns. Resumable: start it again after a stop.
#   results/strategies/competence.sh cartpole|lunarlander|hopper|bipedalwalker|others   (one thread each; about 1, 8, 50, 65 and 40 minutes)
set -euo pipefail
NEOL=${NEOL:-.venv/bin/neol}
OUT=${OUT:-runs/strategies}
run() { "$NEOL" train "$1" --outer es --seed "$2" --out "$OUT/$1-$2" --resume --threads 1 --quiet "${@:3}"; }
case "$1" in
cartpole | lunarlander) for seed in ${SEEDS:-0 1 2 3 4 5 6 7 8}; do run "$1" "$seed"; done ;;
hopper | bipedalwalker) for seed in ${SEEDS:-0 1 2 3 4}; do run "$1" "$seed"; done ;;
others) # nobody tuned for them
  for task in Pendulum-v1 Acrobot-v1 MountainCarContinuous-v0 InvertedDoublePendulum-v5 Swimmer-v5 HalfCheetah-v5 Walker2d-v5 Ant-v5; do
    run "$task" 0 --generations 1000000 --max-env-steps 2000000 --workers 1
  done ;;
*) echo "usage: $0 cartpole|lunarlander|hopper|bipedalwalker|others" >&2; exit 2 ;;
esac
