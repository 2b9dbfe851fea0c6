#!/usr/bin/env bash
# The sdist and the wheel, built reproducibly, and the wheel alone in a bare environment: what it
# brings, what works without torch, TRL and verl, and what its types say to a user's own code; and
# whether an index would take both, and show the README.
#   tools/wheel_check.sh [OUT]     OUT keeps the sdist and the wheel
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3.11}
tools=${TOOLS:-$PWD/.venv/bin}
mypy=$tools/mypy
bare=$(mktemp -d)
trap 'rm -rf "$bare"' EXIT

dist=${1:-$bare/dist}
"$tools/python" tools/build_twice.py "$dist"
wheel=$(ls "$dist"/*.whl)
"$tools/twine" check --strict "$wheel" "${wheel%-py3-none-any.whl}.tar.gz"

"$python" -m venv "$bare/venv"
"$bare/venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt "$wheel"
cp tools/bare_wheel.py tests/typing/downstream.py "$bare"
cd "$bare" # away from the checkout, so that nothing comes from there
venv/bin/python bare_wheel.py
# The types of the installed package, not those of src/; no settings but --strict.
"$mypy" --strict --config-file= --cache-dir=mypy --python-executable venv/bin/python downstream.py
