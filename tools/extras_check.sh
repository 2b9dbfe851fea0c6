#!/usr/bin/env bash
# Each extra alone, in a fresh environment: the wheel with that extra, `pip check`, and a short real
# command of it. What another extra would have brought is missing here, and shows.
#   tools/extras_check.sh [EXTRA...]     (default: trl verl eval report docs)
# KEEP=DIR keeps the environments there, and uses those that are there already.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
python=${PYTHON:-python3.11}
tools=${TOOLS:-$root/.venv/bin}
work=${KEEP:-$(mktemp -d)}
mkdir -p "$work"
work=$(cd "$work" && pwd)
[ -n "${KEEP:-}" ] || trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 HF_HUB_DISABLE_TELEMETRY=1 XDG_CACHE_HOME=$work/cache

"$tools/python" tools/build_twice.py "$work/dist"
wheel=$(ls "$work"/dist/*.whl)

# A few rollouts of text, and outputs with reference answers.
cat > "$work/rollouts.jsonl" << 'END'
{"group": 0, "prompt": "1 + 1?", "answer": "2", "response": "one and one is \\boxed{2}", "reward": 1}
{"group": 0, "prompt": "1 + 1?", "answer": "2", "response": "one and one is \\boxed{3}", "reward": 0}
{"group": 0, "prompt": "1 + 1?", "answer": "2", "response": "so it is \\boxed{\\frac{4}{2}}", "reward": 1}
END

install() { # extra
  local env=$work/$1
  [ -x "$env/bin/python" ] || "$python" -m venv "$env"
  local pip=("$env/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt)
  case $1 in trl | verl | eval) "${pip[@]}" "$(grep '^torch==' constraints.txt)" ;; esac
  "${pip[@]}" --force-reinstall --no-deps "$wheel"
  "${pip[@]}" "$wheel[$1]"
  "$env/bin/python" -m pip check
  bin=$env/bin
}

check_trl() {
  "$bin/ktae" train "$root/recipes/demo/grpo-ktae.yaml" steps=2 rollout.prompts_per_step=2 \
    logging.eval_problems=8 --output run
  test -f run/summary.json && test -f run/curves.png
}

check_verl() { # the plug-in in verl's registry, and the command; nothing is started
  "$bin/python" -c '
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
import ktae.trainers.verl
print("verl has", get_adv_estimator_fn("ktae"))'
  "$bin/ktae" train "$root/recipes/paper/grpo-ktae-1.5b.yaml" --engine verl --dry-run > dry.txt
  grep -q algorithm.adv_estimator=ktae dry.txt
}

check_eval() {
  "$bin/ktae" eval --regrade "$work/rollouts.jsonl" --partial --output graded | tee eval.txt
  "$bin/ktae" compare graded "$work/rollouts.jsonl" --plot forest.png
  test -f graded/outputs.parquet && test -f forest.png
}

check_report() {
  "$bin/ktae" report "$work/rollouts.jsonl" --output report.html
  test -s report.html
  "$bin/python" -c '
from tokenizers import Tokenizer, models, pre_tokenizers
words = {"[unk]": 0, "one": 1, "and": 2, "is": 3}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="[unk]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
import pathlib; pathlib.Path("words").mkdir(exist_ok=True)
tokenizer.save("words/tokenizer.json")'
  "$bin/ktae" report "$work/rollouts.jsonl" --tokenizer words --output tokens.html
  "$bin/ktae" score "$work/rollouts.jsonl" --tokenizer words
}

check_docs() {
  "$bin/python" "$root/tools/build_site.py"
  test -f "$root/site/index.html"
}

for extra in "${@:-trl verl eval report docs}"; do
  for one in $extra; do
    echo "=== ktae[$one]"
    install "$one"
    here=$(mktemp -d "$work/$one-XXXX")
    (cd "$here" && set -e && "check_$one")
    echo "=== ktae[$one]: fine, $("$bin/python" -m pip list --format=freeze | wc -l) packages"
  done
done
