#!/usr/bin/env bash
# Issue "the engine", acceptance 8: held-out returns. Resumable: start it again after a stop.
#   results/engine/competence.sh lander|cartpole|walkers     (one simulator thread each; about 40, 5 and 240 minutes)
set -euo pipefail
NEOL=${NEOL:-.venv/bin/neol}
OUT=${OUT:-runs/competence}
run() { "$NEOL" train "$2" --out "$OUT/$1" --resume --threads 1 --quiet "${@:3}"; }
case "$1" in
lander)
  for seed in 1 2 3 4 5 6 7 8 9; do
    run "lander-hebb-$seed" lunarlander --rule hebb --seed "$seed"
    run "lander-control-$seed" lunarlander --rule hebb --lr 0 --seed "$seed"
  done ;;
cartpole) # the paper's configuration, with 50 of its generations
  for rule in none hebb oja bcm; do
    for seed in 0 1 2 3 4 5 6 7 8 9; do
      run "cartpole-$rule-$seed" cartpole --preset paper --pop-size 50 --lr 0.00025 --generations 50 --rule "$rule" --seed "$seed"
    done
  done ;;
walkers) # 10M environment steps each
  for seed in 0 1 2; do
    for rule in none hebb; do
      for task in hopper bipedalwalker; do
        run "$task-$rule-$seed" "$task" --rule "$rule" --seed "$seed"
      done
    done
  done ;;
*) echo "usage: $0 lander|cartpole|walkers" >&2; exit 2 ;;
esac
