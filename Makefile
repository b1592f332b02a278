# Two commands do everything, set-up included:  make demo   make test
PYTHON ?= python3
PY := .venv/bin/python
READY := .venv/.ready

.PHONY: demo test bench check fix clean

# torch is not needed here; whoever adds it installs torch==2.13.0 first, so that no open range pulls in CUDA.
$(READY): pyproject.toml
	test -x $(PY) || $(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --upgrade pip
	$(PY) -m pip install --quiet --editable '.[dev]'
	touch $(READY)

demo: $(READY)  ## fuse a bundled table: ranking, utilities, one explanation
	$(PY) -m rubrank demo

test: check  ## everything CI runs
	$(PY) -m pytest

check: $(READY)  ## linter, formatter, type checker
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

bench: $(READY)  ## side-by-side timings, printed as ratios
	$(PY) benchmarks/fusion.py

fix: $(READY)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

clean:
	rm -rf .venv build dist out .pytest_cache .ruff_cache .hypothesis
