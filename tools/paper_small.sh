#!/bin/sh
# The paper in miniature: its arms on the embedded demo, two seeds each, by the commands of the real thing.
#
# IT SHOWS THE PIPELINE AND NOT THE CLAIM: a model of 99,000 parameters that learns sums of small numbers
# says nothing about mathematics. What is finished is not done again, what was cut short goes on.
set -eu
self=$(realpath "$0")
jobs=${JOBS:-$(nproc)}
recipes=$(dirname "$self")/../recipes/paper-small
export OMP_NUM_THREADS=1  # a tiny model: threads would only wait for each other

# One run: arm, recipe, credit, seed. Training, then its held-out problems.
if [ "${1:-}" = run ]; then
    out=$2 arm=$3 recipe=$recipes/$4.yaml credit=$5 seed=$6
    run=$out/$arm-seed$seed
    exec 3>&2 > "$run.log" 2>&1
    trap '[ $? = 0 ] || echo "$arm, seed $seed failed: its log is $run.log" >&3' EXIT
    if [ ! -e "$run/summary.json" ]; then
        resume=$([ ! -e "$run/recipe.yaml" ] || echo --resume)
        # shellcheck disable=SC2086  # nothing, or one option
        ktae train "$recipe" credit="$credit" seed="$seed" --output "$run" $resume
    fi
    ktae eval "$run/model" --recipe "$recipe" --output "$out/evals/$arm/seed$seed"
    exit
fi

out=${1:-runs/paper-small}
mkdir -p "$out"
about=$(sed -n '2,5s/^# \{0,1\}//p' "$self")
echo "$about"
# The first run alone: it pretrains the base model that all share.
"$self" run "$out" grpo grpo null 0
for seed in 0 1; do
    for arm in "grpo grpo null" "grpo-ktae grpo paper" "dapo dapo null" "dapo-ktae dapo paper" \
        "no-fisher grpo no-fisher" "no-ig grpo no-ig" "no-tf grpo no-tf"; do
        echo "$arm $seed"
    done
done | xargs -P "$jobs" -L 1 sh -c '
    echo "$3, seed $6"
    "$1" run "$2" "$3" "$4" "$5" "$6"' sh "$self" "$out"

# Tables 1 and 2 and the tests; figures 3 (GRPO and DAPO) and 4 (ablations) with table 3; the page of figure 1.
cd "$out"
compare() { # a name, and evaluations: what is printed, and NAME.json
    name=$1
    shift
    ktae compare "$@" --pool-models
    ktae compare "$@" --pool-models --json > "$name.json"
}
{
    echo "$about"
    compare grpo evals/grpo evals/grpo-ktae
    compare dapo evals/dapo evals/dapo-ktae
    compare ablations evals/grpo-ktae evals/no-fisher evals/no-ig evals/no-tf
    ktae curves grpo-seed? grpo-ktae-seed? dapo-seed? dapo-ktae-seed? --smooth 8 --output curves.png
    ktae curves grpo-seed? grpo-ktae-seed? no-*-seed? --smooth 8 --output ablations.png
} > tables.txt
ktae report grpo-ktae-seed0 --output report.html
cat tables.txt
