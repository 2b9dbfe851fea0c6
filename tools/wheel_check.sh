#!/usr/bin/env bash
# The sdist and the wheel: would an index take them, and does the wheel work alone, without torch, TRL and verl?
#   tools/wheel_check.sh [EXTRA...]     each extra named is tried too, in an environment of its own
# PYTHON=python3.12 tries another Python.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3.11}
tools=$PWD/.venv/bin
constraints=$PWD/constraints.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The wheel is built from the sdist, so the sdist lacks nothing that it needs.
"$tools/python" -m build --no-isolation --outdir "$work/dist" . > "$work/build.log" || {
  cat "$work/build.log"
  exit 1
}
wheel=$(ls "$work"/dist/*.whl)
"$tools/check-wheel-contents" "$wheel"
"$tools/twine" check --strict "$work"/dist/*
cp tests/typing/downstream.py "$work"
cd "$work" # away from the checkout: nothing comes from there

echo '{"group": 0, "token_ids": [1, 2, 3], "reward": 1}
{"group": 0, "token_ids": [1, 2, 4], "reward": 0}' > rollouts.jsonl
for extra in "" "$@"; do
  venv=$work/venv-$extra
  "$python" -m venv "$venv"
  pip=("$venv/bin/python" -m pip --quiet --disable-pip-version-check)
  case $extra in trl | verl | eval) "${pip[@]}" install "$(grep '^torch==' "$constraints")" ;; esac
  "${pip[@]}" install -c "$constraints" "$wheel${extra:+[$extra]}"
  "$venv/bin/python" -m pip check
  "$venv/bin/ktae" --version
  "$venv/bin/ktae" score rollouts.jsonl --output "scores-$extra.parquet" > /dev/null
  test -s "scores-$extra.parquet"
  [ -z "$extra" ] || "$venv/bin/ktae" doctor
done
# The types of the installed package, not those of src/; no settings but --strict.
"$tools/mypy" --strict --config-file= --cache-dir=mypy --python-executable "$work/venv-/bin/python" downstream.py
