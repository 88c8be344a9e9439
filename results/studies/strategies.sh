#!/usr/bin/env bash
# Does structure still matter once an evolution strategy has the weights, and does plasticity help inside it? A million steps each, two on the walker.
# One core, about 35 s a run on the lander, 3.5 minutes on the hopper, 3 on the bipedal walker. Resumable; where runs/ is not kept, it goes on from what stands in results/.
set -euo pipefail
NEOL=${NEOL:-.venv/bin/neol}
OUT=${OUT:-runs}
study() { # folder under runs/ and results/studies/, study, options
  "$NEOL" study run "$2" --from "results/studies/$1" --out "$OUT/$1" --jobs 1 "${@:3}"
  "$NEOL" study export "$OUT/$1" --database "results/studies/$1/study.sqlite"
  "$NEOL" report "results/studies/$1"
}
study strategies-lander strategies --tasks lunarlander --arms neat-es es neat
study strategies strategies --tasks hopper --arms neat-es es neat
study strategies-walker strategies --tasks bipedalwalker --arms neat-es es neat
study strategies-plasticity strategies-plasticity --tasks lunarlander --seeds 10
