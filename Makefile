# The two commands of the README are `make train` and `make test`; both set up first what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
CORE := $(VENV)/.core
EVERYTHING := $(VENV)/.everything
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal --durations=20

.PHONY: core setup train test test-fast fuzz check format bench docs clean

core: $(CORE)

setup: $(EVERYTHING)

# What `pip install .` gives: no Ray, PyTorch or JAX, no tools of development.
$(CORE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "NEOL needs Python 3.11 or newer, this is " + sys.version)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $@

$(EVERYTHING): $(CORE)
	$(PIP) -e '.[all,dev]'
	touch $@

# A lunar lander with Hebbian plasticity, in about two minutes on two cores.
train: core
	$(BIN)/neol train lunarlander --out runs/lander --resume --film $(ARGS)

test: setup
	$(PYTEST) $(ARGS)

# For the inner loop of work: without the tests that tests/slow.txt names.
test-fast: setup
	$(PYTEST) -m 'not slow' $(ARGS)

# 30,000 bad inputs (files, databases, command lines): a table of what became of them. Goes on where it was stopped.
fuzz: setup
	$(BIN)/python tests/fuzz/harness.py --cases 30000 --jobs 2 $(ARGS)

check: setup
	$(BIN)/ruff format --check src tests benchmarks examples tools
	$(BIN)/ruff check src tests benchmarks examples tools
	$(BIN)/mypy

format: setup
	$(BIN)/ruff format src tests benchmarks examples tools
	$(BIN)/ruff check --fix src tests benchmarks examples tools

# Speed, side by side with the alternatives; JSON out. Wants a quiet machine.
bench: setup
	for b in engine executors environments agreement outer peers memory startup regret studies baselines; do $(BIN)/python benchmarks/$$b.py; done

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis site

# The documentation as a site that needs no network: open site/index.html.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site is built: site/index.html"

$(VENV)/.docs: $(CORE)
	$(PIP) -e '.[docs]'
	touch $@
