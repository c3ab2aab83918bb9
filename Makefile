# `make demo` and `make test` set up everything they need in .venv. Wanted: Python 3.10 or newer with pip and venv, g++, make.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BUILT_FROM := pyproject.toml CMakeLists.txt $(wildcard src/lrmc/_kernels/*.cpp src/lrmc/_kernels/*.hpp)

.PHONY: help demo test lint format bench clean

help:
	@echo "make demo    show what lrmc does, in a minute: a table, and lrmc-demo/report.html"
	@echo "make test    run all tests"
	@echo "make lint    check format, style and types"
	@echo "make format  put the code in form"
	@echo "make bench   time one pass over the data against reading it"
	@echo "make clean   remove what was built, .venv too"

demo: $(READY)
	@$(BIN)/lrmc demo -o lrmc-demo

test: $(READY)
	@$(BIN)/pytest -q -n auto

lint: $(READY)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(READY)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY)
	@$(BIN)/python benchmarks/passes.py

clean:
	rm -rf .venv build dist lrmc-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -exec rm -rf {} +

$(READY): $(BUILT_FROM)
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "building lrmc in .venv (a few minutes the first time)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[dev]'
	@touch $(READY)
