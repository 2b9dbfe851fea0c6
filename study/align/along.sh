#!/usr/bin/env bash
# Alignment along a run of GRPO, on both languages of the demo: study/align/along/LANGUAGE-stepN.json.
#
#     study/align/along.sh               # what is there already is kept and not measured again
#     study/align/along.sh --batches 10  # a trial: whatever stands here goes to `ktae align`
#
# A trial's results stay in runs/, in folders named after its arguments.
# Two training runs and ten alignments, two at a time; an alignment of the defaults takes minutes.
set -euo pipefail
set -m # each language is a process group, so that ending it ends what it runs
cd "$(dirname "$0")/../.."
recipe=recipes/demo/hard/grpo.yaml
estimators="paper,calibrated:units=[token]"
for estimator in calibrated "calibrated:units=[trigram]"; do # each whole, and in its two parts
  estimators+=",$estimator,$estimator:control=rollout-mean,$estimator:control=within-rollout"
done
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
trial=$(printf '%s' "$*" | tr -c 'A-Za-z0-9.' '-')

along() {
  local language=$1 run=runs/along-$1
  shift
  if [ ! -e "$run/summary.json" ]; then
    local resume=()
    [ ! -e "$run/recipe.yaml" ] || resume=(--resume)
    ktae train "$recipe" "demo.language=$language" steps=80 logging.save_every=10 \
      logging.keep_checkpoints=8 --output "$run" "${resume[@]}"
  fi
  for step in 0 10 20 40 80; do
    local model=$run/checkpoints/checkpoint-$((8 * step)) # eight optimizer steps a step
    [ "$step" -gt 0 ] || model=demo
    local out=runs/along-$language-step$step${trial:+-trial$trial}
    [ -e "$out/align.json" ] || ktae align "$recipe" "demo.language=$language" \
      "model.path=$model" "seed=$((1000 + step))" --batches 40 --weights 1,2 \
      --estimators "$estimators" --output "$out" "$@"
    if [ -n "$trial" ]; then
      echo "trial: $out/align.json"
    else
      mkdir -p study/align/along
      cp "$out/align.json" "study/align/along/$language-step$step.json"
    fi
  done
}

along sums "$@" </dev/null &
sums=$!
along lists "$@" </dev/null &
lists=$!
trap 'kill -- "-$sums" "-$lists" 2>/dev/null || true' EXIT
wait -n # the first that ends; if it failed, the other is of no use
wait -n
