# `make train` and `make test` need nothing but Python 3.11 and make; the rest builds on .venv.
PYTHON ?= python3.11
CORE_PYTHON ?= $(PYTHON)
BIN := .venv/bin
RECIPE ?= recipes/demo/grpo-ktae.yaml
STUDIES := main explore successor controls rates goal models models-dapo long
STUDY_OUTPUT ?= studies
JOBS ?= 1
EXAMPLES ?= 10000
EXTRAS ?=
ARGS ?=
export HF_HUB_DISABLE_TELEMETRY ?= 1

# The demo's model is tiny: two threads would only wait for each other.
train test study measurements study-smoke notebooks: export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help train test lint format bench study measurements study-smoke docs notebooks clean
.PHONY: wheel-check extras-check test-core readme-check fuzz audit

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[trl,verl,eval,report,study,dev]"
	touch $@

train: .venv/installed ## Train the embedded demo with GRPO+KTAE through TRL (RECIPE=..., ARGS=...)
	$(BIN)/ktae train $(RECIPE) $(ARGS)

test: .venv/installed ## Run all tests
	$(BIN)/python -m pytest $(ARGS)

lint: .venv/installed ## Check format, style and types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

format: .venv/installed ## Format the code
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: .venv/installed ## Measure the estimator's speed
	$(BIN)/python benchmarks/estimator.py $(ARGS)

study-smoke: .venv/installed ## Run a study of 2 methods × 2 seeds × 4 steps, in minutes
	rm -rf runs/study-smoke
	$(BIN)/ktae study study/smoke.yaml --output runs/study-smoke $(ARGS)

study: $(STUDIES:%=study-%) measurements ## Run or continue all of docs/results, for a day (JOBS=..., STUDY_OUTPUT=...)

measurements: study-main study-long ## What docs/results has beside its studies: by temperature, alignment, step time
	$(BIN)/python study/temperatures.py study/main.yaml $(STUDY_OUTPUT)/main --jobs $(JOBS) --methods grpo,grpo-calibrated
	$(BIN)/python study/temperatures.py study/long.yaml $(STUDY_OUTPUT)/long --jobs $(JOBS)
	PATH="$(CURDIR)/$(BIN):$$PATH" study/align/base.sh
	PATH="$(CURDIR)/$(BIN):$$PATH" study/align/along.sh
	$(BIN)/python benchmarks/step_time.py

# Not into study/results, which has committed results without their runs, but into studies/, which git
# ignores. A study that is there already is continued: finished runs are kept.
$(STUDIES:%=study-%): study-%: .venv/installed
	$(BIN)/ktae study study/$*.yaml --output $(STUDY_OUTPUT)/$* --jobs $(JOBS) \
		$(if $(wildcard $(STUDY_OUTPUT)/$*/announced.json),--resume) $(ARGS)

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
	rm -rf .venv site dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
