#!/usr/bin/env bash
# Alignment along a run of GRPO, on both languages of the demo: study/align/along/LANGUAGE-stepN.json.
# An hour on two cores. Extra arguments go to `ktae align`: study/align/along.sh --batches 10
set -euo pipefail
cd "$(dirname "$0")/../.."
recipe=recipes/demo/hard/grpo.yaml
estimators="paper,calibrated,calibrated:units=[token],calibrated:units=[bigram],calibrated:units=[trigram]"
estimators+=",calibrated:units=[token,bigram,trigram],paper:control=permuted-labels"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

along() {
  local language=$1 run=runs/along-$1
  if [ ! -e "$run/summary.json" ]; then
    ktae train "$recipe" "demo.language=$language" steps=80 logging.save_every=10 \
      logging.keep_checkpoints=8 --output "$run"
  fi
  for step in 0 10 20 40 80; do
    local model=$run/checkpoints/checkpoint-$((8 * step)) # eight optimizer steps a step
    [ "$step" -gt 0 ] || model=demo
    local out=runs/along-$language-step$step
    [ -e "$out/align.json" ] || ktae align "$recipe" "demo.language=$language" \
      "model.path=$model" "seed=$((1000 + step))" --batches 40 --weights 1,2 \
      --estimators "$estimators" --output "$out" "${@:2}"
    mkdir -p study/align/along
    cp "$out/align.json" "study/align/along/$language-step$step.json"
  done
}

along sums "$@" &
sums=$!
along lists "$@"
wait "$sums"
