#!/usr/bin/env bash
# Alignment along runs of GRPO, on both languages and three base models of the demo:
# study/align/along/LANGUAGE-baseN-stepS.json. The recipe is that of the studies at the usual rate.
#
#     study/align/along.sh               # what is there already is kept and not measured again
#     study/align/along.sh --batches 10  # a trial: whatever stands here goes to `ktae align`
#
# A trial's results stay in runs/, in folders named after its arguments.
# Six training runs and thirty alignments, two at a time, in about half an hour.
set -euo pipefail
set -m # each language is a process group, so that ending it ends what it runs
cd "$(dirname "$0")/../.."
recipe=recipes/demo/hard/grpo.yaml
estimators=paper
# Each whole, and in its two parts. Trigrams have the weight that study/explore.yaml trained with.
for estimator in calibrated "calibrated:units=[trigram]:term_scale=0.6"; do
  estimators+=",$estimator,$estimator:control=rollout-mean,$estimator:control=within-rollout"
done
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
trial=$(printf '%s' "$*" | tr -c 'A-Za-z0-9.' '-')

along() { # LANGUAGE BASE_MODEL [OPTION ...]
  local language=$1 base=$2 run=runs/along-$1-base$2
  shift 2
  local demo=("demo.language=$language" "model.demo_seed=$base")
  if [ ! -e "$run/summary.json" ]; then
    local resume=()
    [ ! -e "$run/recipe.yaml" ] || resume=(--resume)
    ktae train "$recipe" "${demo[@]}" steps=40 logging.save_every=5 \
      logging.keep_checkpoints=8 --output "$run" "${resume[@]}"
  fi
  for step in 0 5 10 20 40; do
    local model=$run/checkpoints/checkpoint-$((8 * step)) # eight optimizer steps a step
    [ "$step" -gt 0 ] || model=demo
    local name=$language-base$base-step$step
    local out=runs/along-$name${trial:+-trial$trial}
    [ -e "$out/align.json" ] || ktae align "$recipe" "${demo[@]}" "model.path=$model" \
      "seed=$((1000 + step))" --batches 20 --reference-prompts 512 --weights 1,2 \
      --estimators "$estimators" --output "$out" "$@"
    if [ -n "$trial" ]; then
      echo "trial: $out/align.json"
    else
      mkdir -p study/align/along
      cp "$out/align.json" "study/align/along/$name.json"
    fi
  done
}

of_language() {
  for base in 0 1 2; do along "$1" "$base" "${@:2}"; done
}

of_language sums "$@" </dev/null &
sums=$!
of_language lists "$@" </dev/null &
lists=$!
trap 'kill -- "-$sums" "-$lists" 2>/dev/null || true' EXIT
wait -n # the first that ends; if it failed, the other is of no use
wait -n
