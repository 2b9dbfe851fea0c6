#!/usr/bin/env bash
# Measures lab/results/real-alignment again: one run of GRPO whose seed is none of real-model's, and the alignment of that study's arms
# along it. Some hours of a core. What is there is kept: start it again after an interruption.
set -euo pipefail
recipe=$(cd "$(dirname "$0")/../.." && pwd)/recipes/smollm2/grpo.yaml
cd "${1:?the folder for the run and the tables}"
if [ ! -f run/summary.json ]; then
  ktae train "$recipe" seed=4100 steps=40 logging.save_every=10 logging.keep_checkpoints=4 --output run \
    $([ ! -f run/recipe.yaml ] || echo --resume)
fi
for step in 0 10 20 40; do
  model=$([ $step = 0 ] || echo "model.path=run/checkpoints/checkpoint-$step")
  [ -f step$step/products.csv.gz ] || ktae-lab align "$recipe" name=smollm2-step$step seed=$((4101 + step)) $model \
    --batches 20 --reference-prompts 256 -e conflict-tokens -e sharp-trigrams \
    -e 'offset={estimator: conflict-tokens, transforms: [group-mean]}' --output step$step
done
for table in measurements.csv references.csv; do
  { head -n 1 step0/$table; tail -q -n +2 step{0,10,20,40}/$table; } > $table
done
{ zcat step0/products.csv.gz; for step in 10 20 40; do zcat step$step/products.csv.gz | tail -n +2; done; } | gzip -n > products.csv.gz
