#!/usr/bin/env bash
# The core on any Python: the wheel without extras, and the tests of what it holds. No torch, no TRL.
#   PYTHON=python3.12 tools/core_check.sh [pytest's arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3.11}
tools=${TOOLS:-.venv/bin}
work=${KEEP:-$(mktemp -d)}
[ -n "${KEEP:-}" ] || trap 'rm -rf "$work"' EXIT

"$tools/python" tools/build_twice.py "$work/dist"
[ -x "$work/venv/bin/python" ] || "$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt \
  "$work"/dist/*.whl pytest hypothesis scipy
"$work/venv/bin/python" -m pip check
"$work/venv/bin/python" --version

# Whatever needs an extra is left out here, and not skipped one by one.
"$work/venv/bin/python" -m pytest -q tests/*.py tests/backends tests/cli tests/data tests/rollouts \
  tests/fuzz "$@"
