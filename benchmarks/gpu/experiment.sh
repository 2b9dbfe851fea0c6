#!/usr/bin/env bash
# Does token credit train a real model better? Six arms, thirty seeds, paired; nobody has run it yet.
# By arithmetic about 400 hours of one H100. First: ktae data prepare math12k
#     benchmarks/gpu/experiment.sh rates    # three learning rates an arm, on two seeds of their own
#     RATE_backoff=5e-7 benchmarks/gpu/experiment.sh run    # with each arm's best rate; resumable
set -euo pipefail
recipe=recipes/paper/grpo-1.5b.yaml
size=(steps=200 rollout.prompts_per_step=32 rollout.max_response_length=1536 algorithm.minibatches=2)
declare -A arms=(
  [grpo]=credit=null
  [penalty]=trl.entropy_coef=-0.003
  [backoff]=credit=backoff
  [paper]=credit=paper
  [paper4]='credit={estimator: paper, transforms: [{scaled: 4}]}'
  [random]='credit={estimator: backoff, transforms: [random-places]}'
)

one() { # ARM RATE SEED FOLDER: train and evaluate what is not there yet
  [ -e "$4/run/model" ] || ktae train "$recipe" "${size[@]}" "${arms[$1]}" seed="$3" \
    optimizer.learning_rate="$2" --output "$4/run"
  [ -e "$4/eval/summary.json" ] || ktae eval "$4/run/model" --recipe "$recipe" --output "$4/eval"
}

case "${1:-}" in
  rates)
    for arm in "${!arms[@]}"; do for rate in 5e-7 1e-6 2e-6; do for seed in 5000 5001; do
      one "$arm" "$rate" "$seed" "gpu/rates/$arm-$rate-seed$seed"
    done; done; done ;;
  run)
    for seed in $(seq 5100 5129); do for arm in "${!arms[@]}"; do
      rate=RATE_$arm
      one "$arm" "${!rate:?set RATE_$arm to its best rate}" "$seed" "gpu/$arm-seed$seed"
    done; done
    for arm in penalty backoff paper paper4 random; do
      for seed in $(seq 5100 5129); do
        ktae compare "gpu/grpo-seed$seed/eval" "gpu/$arm-seed$seed/eval" --json > "gpu/$arm-seed$seed/compare.json"
      done
    done ;;
  *) sed -n 2,5p "$0"; exit 2 ;;
esac
