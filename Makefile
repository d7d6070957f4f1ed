PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DOCS_INSTALLED := $(VENV)/.docs-installed
INSTALL := $(BIN)/python -m pip install --constraint constraints/ci.txt
ROUNDS ?= 40

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench soak docs clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(INSTALLED) ## install everything a developer needs into .venv

demo: $(INSTALLED) ## train and compare three small networks on the embedded digits
	$(BIN)/xcnorm demo

test: lint ## check style, types, floors, and run the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup --ignore tests/kernels
	# Triton decides at its import whether it compiles for a GPU or interprets on the CPU: a run of its own.
	TRITON_INTERPRET=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 tests/kernels

lint: $(INSTALLED) ## check style, types and floors
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(INSTALLED) ## time the layers
	$(BIN)/xcnorm bench layers --quick

soak: $(INSTALLED) ## make things go wrong for long, and write down what came of it
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults --rounds $(ROUNDS) --out benchmarks/results/trust/faults_cpu.json
	$(INSTALL) --editable ".[soak]"
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzzing .cache/fuzzing --out benchmarks/results/trust/fuzzing_cpu.json
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak .cache/soak --out benchmarks/results/trust/training_cpu.json
	XCNORM_EXAMPLES=10000 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/nn/test_geometry_of_torch.py --timeout 0
	$(BIN)/python -m benchmarks.trust benchmarks/results/trust/*.json docs/trust.md

docs: $(DOCS_INSTALLED) ## build the documentation into site/
	$(BIN)/zensical build --clean --strict

clean: ## remove everything that can be made again
	rm -rf $(VENV) site dist .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# The mark is written last and taken away first: an install that was killed leaves none, and the next one
# starts from an empty environment instead of trusting half a package.
$(INSTALLED): pyproject.toml constraints/ci.txt
	test -e $@ || $(PYTHON) -m venv --clear $(VENV)
	rm -f $@
	$(INSTALL) --editable ".[dev]"
	touch $@

$(DOCS_INSTALLED): $(INSTALLED)
	$(INSTALL) --editable ".[docs]"
	touch $@
