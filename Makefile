PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_INSTALLED := $(VENV)/.demo-installed
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip
INSTALL := $(PIP) install --constraint constraints/ci.txt
ROUNDS ?= 40

.DEFAULT_GOAL := help
.PHONY: help setup demo browser test coverage lint bench soak mutants docs lock audit-deps clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

setup: $(INSTALLED) ## install everything a developer needs into .venv

demo: $(DEMO_INSTALLED) ## train and compare three small networks on the embedded digits
	$(BIN)/xcnorm demo

# Without one, what a browser must show is skipped, with a reason. So nothing here is an error.
browser: # install Debian's Chromium for the tests, where there is none and it can be
	@for name in chromium chromium-browser google-chrome; do command -v $$name > /dev/null && exit 0; done; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then \
		echo "no Chromium, and no right or no apt-get to install it: tests in a browser will be skipped"; exit 0; fi; \
	echo "installing Chromium for the tests in a browser"; export DEBIAN_FRONTEND=noninteractive; \
	timeout 240 sh -c 'apt-get -qq install --yes --no-install-recommends chromium > /dev/null 2>&1 \
		|| { apt-get -qq update && apt-get -qq install --yes --no-install-recommends chromium; } > /dev/null 2>&1' \
	|| echo "Chromium cannot be installed: tests in a browser will be skipped"

test: lint browser ## check style, types, floors, and run the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup --ignore tests/kernels
	# Triton decides at its import whether it compiles for a GPU or interprets on the CPU: a run of its own.
	TRITON_INTERPRET=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 tests/kernels

coverage: $(INSTALLED) browser ## run the tests, and say what of the code they reach; takes half as long again
	$(BIN)/coverage erase
	OMP_NUM_THREADS=1 $(BIN)/coverage run -m pytest -n 2 --dist loadgroup --ignore tests/kernels
	TRITON_INTERPRET=1 OMP_NUM_THREADS=1 $(BIN)/coverage run -m pytest -n 2 tests/kernels
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

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

docs: $(INSTALLED) ## build the documentation into site/
	$(BIN)/zensical build --clean --strict

lock: $(DEMO_INSTALLED) ## write the hashes of the pinned packages anew
	$(INSTALL) uv
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile --quiet --config-file constraints/uv.toml --universal \
		--python-version 3.11.5 --generate-hashes --no-annotate --no-emit-package torch --extra dev --extra docs \
		--constraint constraints/ci.txt --output-file constraints/hashes.txt pyproject.toml

# Strict, because it is no answer to have asked nobody: without a network, or with an index that knows no advisories.
audit-deps: $(INSTALLED) ## known vulnerabilities of what is pinned; needs a network
	$(INSTALL) pip-audit
	$(BIN)/pip-audit --strict --disable-pip --require-hashes --requirement constraints/hashes.txt

mutants: $(INSTALLED) ## count the small mistakes that no test notices; takes hours
	$(INSTALL) mutmut
	OMP_NUM_THREADS=1 $(BIN)/mutmut run
	$(BIN)/python -m benchmarks.mutation --out benchmarks/results/trust/mutation_cpu.json
	$(BIN)/python -m benchmarks.trust benchmarks/results/trust/mutation_cpu.json docs/trust.md

clean: ## remove everything that can be made again
	rm -rf $(VENV) site dist mutants .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# What is installed, by its marks: the demo's packages, and with them everything for developers. Marks are written last and
# taken away first: an install that was killed leaves none, and the next one starts from an empty environment instead of
# trusting half a package.
$(DEMO_INSTALLED): pyproject.toml constraints/ci.txt
	test -e $@ || $(PYTHON) -m venv --clear $(VENV)
	rm -f $@
	$(INSTALL) --editable ".[demo]"
	touch $@

# Every file that is installed has its hash checked, but for torch's, of which there is one for each kind of machine; what
# its builds for GPUs ask for comes with it. The package itself is built by what was checked.
$(INSTALLED): pyproject.toml constraints/ci.txt constraints/hashes.txt
	test -e $(DEMO_INSTALLED) || $(PYTHON) -m venv --clear $(VENV)
	rm -f $(DEMO_INSTALLED) $@
	$(PIP) install --require-hashes --no-deps --requirement constraints/hashes.txt
	$(INSTALL) torch
	$(PIP) install --no-build-isolation --no-deps --editable .
	$(PIP) check
	touch $(DEMO_INSTALLED) $@
