#!/usr/bin/env bash
# Everything to try on a GPU, in ten minutes, without a network: benchmarks/gpu/run.sh [FOLDER]
# SmolLM2-135M-Instruct has to be there (make smollm2). A part that fails is named, and the others run.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=${1:-gpu}
failed=
mkdir -p "$out"

part() { # NAME COMMAND...
  "${@:2}" || failed+=" $1"
}

# The counting of tensors against the reference, and a real step's gradient with each loss of TRL.
part doctor sh -c 'ktae doctor --json > "$1"' - "$out/doctor.json"
part speed python benchmarks/estimator.py paper@cuda backoff@cuda paper backoff copy --csv "$out/speed.csv"
# Twenty steps of a real model, with credit and without: metrics.jsonl has rewards, losses and seconds.
for credit in backoff null; do
  part "training-$credit" ktae train recipes/smollm2/grpo.yaml steps=20 "credit=$credit" --output "$out/training-$credit"
done
if [ -n "$failed" ]; then
  echo "failed:$failed"
  exit 1
fi
