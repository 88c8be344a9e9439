#!/usr/bin/env bash
# The short trials that today's defaults were chosen by (trials.csv). Resumable. About an hour of one core.
set -euo pipefail
NEOL=${NEOL:-.venv/bin/neol}
OUT=${OUT:-runs/trials}
run() { "$NEOL" train "$2" --out "$OUT/$1" --resume --threads 1 --quiet "${@:3}"; }
for seed in 1 2 3; do run "lander-hebb-$seed" lunarlander --rule hebb --seed "$seed"; done
run hopper-none-0 hopper --rule none --seed 0 --max-env-steps 3000000
walker() {
  run "$1" bipedalwalker --rule none --seed 0 --max-env-steps 2000000 --generations 100000 \
    --pop-size 50 --elitism 10 --disabled-inherit-prob 0 --champion-candidates 5 --champion-trials 10 "${@:2}"
}
walker walker-ordinary-steps
walker walker-small-steps --weight-init-stdev 0.1 --weight-mutate-rate 0.9 --weight-mutate-power 0.1 \
  --weight-replace-rate 0 --bias-init-stdev 0.1 --bias-mutate-rate 0.9 --bias-mutate-power 0.1 --bias-replace-rate 0
walker walker-paper-neutral --preset paper
run walker-paper bipedalwalker --preset paper --pop-size 50 --rule none --seed 0 --max-env-steps 2000000 --generations 100000
few="--max-env-steps 1500000 --champion-candidates 5 --champion-trials 10 --champion-episodes 50"
for scale in 0.01 0.001 0.0001; do # shellcheck disable=SC2086
  run "hopper-hebb-$scale" hopper --rule hebb --seed 0 --reward-scale "$scale" $few
done
# shellcheck disable=SC2086
run walker-defaults bipedalwalker --rule none --seed 0 $few
# shellcheck disable=SC2086
run walker-paper-rates bipedalwalker --rule none --seed 0 $few --elitism 10 --conn-add-prob 0.5 --conn-delete-prob 0.5 \
  --node-add-prob 0.2 --node-delete-prob 0.2 --weight-mutate-rate 0.8 --weight-mutate-power 0.5 --weight-replace-rate 0.1 \
  --bias-mutate-rate 0.7 --bias-mutate-power 0.5 --bias-replace-rate 0.1
"${NEOL%neol}python" results/collect.py "$OUT" > results/engine/trials.csv
