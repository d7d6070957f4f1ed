PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_INSTALLED := $(VENV)/.demo-installed
INSTALLED := $(VENV)/.installed
DOCS_INSTALLED := $(VENV)/.docs-installed
INSTALL := $(BIN)/python -m pip install --constraint constraints/ci.txt

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench docs clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(INSTALLED) ## install everything a developer needs into .venv

demo: $(DEMO_INSTALLED) ## train and compare three small networks on the embedded digits
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

docs: $(DOCS_INSTALLED) ## build the documentation into site/
	$(BIN)/zensical build --clean --strict

clean: ## remove everything that can be made again
	rm -rf $(VENV) site dist .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# What is installed, by its marks: the demo's packages, with them everything for developers, and the documentation's on
# top. Marks are written last and taken away first: an install that was killed leaves none, and the next one starts from
# an empty environment instead of trusting half a package.
$(DEMO_INSTALLED): pyproject.toml constraints/ci.txt
	$(call install,demo,$(DEMO_INSTALLED))

$(INSTALLED): pyproject.toml constraints/ci.txt
	$(call install,dev,$(DEMO_INSTALLED) $(INSTALLED))

$(DOCS_INSTALLED): $(INSTALLED)
	$(call install,docs,$(DEMO_INSTALLED) $(INSTALLED) $(DOCS_INSTALLED))

# install(extra, marks)
define install
	test -e $(DEMO_INSTALLED) || $(PYTHON) -m venv --clear $(VENV)
	rm -f $(2)
	$(INSTALL) --editable ".[$(1)]"
	touch $(2)
endef
