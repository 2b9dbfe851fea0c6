#!/usr/bin/env bash
# Alignment at base models of the sums, before training: study/align/sums-base*.json, docs/align.md's tables.
#
#     study/align/base.sh               # what is in runs/ is not measured again
#     study/align/base.sh --batches 10  # a trial: whatever stands here goes to `ktae align`, results stay in runs/
set -euo pipefail
cd "$(dirname "$0")/../.."
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
trial=$(printf '%s' "$*" | tr -c 'A-Za-z0-9.' '-')
units="calibrated:units=[token],calibrated:units=[bigram]"
controls="paper:control=permuted-labels,calibrated:control=permuted-labels"

measure() { # NAME ESTIMATORS [KEY=VALUE or OPTION ...]
  local name=$1 estimators=$2
  shift 2
  local out=runs/align-$name${trial:+-trial$trial}
  [ -e "$out/align.json" ] || ktae align recipes/demo/grpo.yaml --estimators "$estimators" --output "$out" "$@"
  [ -n "$trial" ] || cp "$out/align.json" "study/align/$name.json"
}

measure sums-base0 "paper,no-tf,calibrated,$units,$controls" "$@"
measure sums-base0-no-std paper algorithm.scale_by_std=false "$@"
measure sums-base1 paper model.demo_seed=1 --batches 30 --reference-prompts 384 "$@"
