#!/usr/bin/env bash
# Motors that may be wired either way: what learns it in life, beside every control. 2 to 5 s of one core a run (PPO: 15 s). Resumable;
# where runs/motors is not kept, it goes on from what stands in results/lives/motors.
set -euo pipefail
NEOL=${NEOL:-.venv/bin/neol}
OUT=${OUT:-runs/motors}
ARMS=(hebb hebb-fast rates advantage abcd modulated drawn static static-senses recurrent recurrent-senses recurrent-products specialist ppo oracle home)
"$NEOL" study run motors --from results/lives/motors --out "$OUT" --tasks motors-1 motors-4 --seeds 8 --jobs 1 --arms "${ARMS[@]}"
"$NEOL" study export "$OUT" --database results/lives/motors/study.sqlite
"$NEOL" report results/lives/motors
