# make lab   build .venv if need be and open JupyterLab on the first notebook
# make test  build .venv if need be and run every check
# make help  the rest

.DEFAULT_GOAL := help
.PHONY: help lab setup test pytest pages timed proof bump site format refresh browser bench record clean
MAKEFLAGS += --no-print-directory

# An environment that is there goes on with its own Python.
PYTHON ?= $(shell .venv/bin/python -c "" 2>/dev/null && echo .venv/bin/python || echo python3)
TORCH ?=
PY := .venv/bin/python
CORES := $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
# Pages and tests wait for processes that they start: one more than cores fills the gaps.
AT_ONCE := $(shell expr $(CORES) + 1)
TIMED := $(wildcard $(addprefix notebooks/,00_* 02_* 10_* 30_*))
PAGES := $(wildcard notebooks/reference/*.ipynb) $(filter-out $(TIMED),$(wildcard notebooks/*.ipynb))

help: ## say what can be made
	@grep -hE '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 10
	@echo "PYTHON=python3.12 chooses the Python, TORCH=cpu or TORCH=cu126 the build of torch."

setup: ## build the environment in .venv
	@command -v $(PYTHON) >/dev/null || { echo "setup: no $(PYTHON) here: install Python 3.11 to 3.14 (Debian, Ubuntu: apt install python3 python3-venv python3-dev)" >&2; exit 1; }
	@$(PYTHON) bootstrap.py --torch "$(if $(findstring .,$(TORCH)),,$(TORCH))"

lab: setup ## open your own copies of the lessons in JupyterLab
	@$(PY) -m tools.lab

# Each run starts from an empty compile cache, so that a broken compiler cannot
# hide behind kernels of an earlier run, and shares it from then on.  About as many
# processes as the machine has cores; the longest pages, which are references, come first, and what
# claims something of seconds runs by itself, at the end.
test: export COURSE_STRICT = 1
test: export HELPERS_QUIET = 1
# Or each empty cache, of which pages make dozens, has builds to try the CPU's vectors.
test: export TORCHINDUCTOR_VEC_ISA_OK = 1
# Or each process that compiles starts another one, which imports torch for Triton's sake.
test: export TORCH_WARM_POOL = 0
test: export PYTHONPATH = $(CURDIR)/tests/quick
# Linking against torch's 450 MB is much of each build: gold, where it is, takes a quarter off.
test: export COMPILER_PATH = $(CURDIR)/.cache/test/linker
test: setup ## run every check: format, lint, helpers, exercises, notebooks
	@rm -rf .cache/test && mkdir -p .cache/test/linker
	@gold=$$(command -v ld.gold) && ln -s "$$gold" .cache/test/linker/ld || true
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	@failed=0; \
	$(MAKE) pytest || failed=1; \
	$(MAKE) pages || failed=1; \
	$(MAKE) timed || failed=1; \
	exit $$failed

# One thread of torch for each process: together they use the cores.
pytest: export TORCHINDUCTOR_CACHE_DIR = $(CURDIR)/.cache/test/tests
pytest: export OMP_NUM_THREADS = 1
pytest:
	$(PY) -m pytest tests -n $(AT_ONCE) --dist worksteal

pages timed: export TORCHINDUCTOR_CACHE_DIR = $(CURDIR)/.cache/test/pages
# Where several share the cores, a thread that waits must not spin.
pages: export OMP_WAIT_POLICY = passive
pages:
	$(PY) -m tests.strict -q -n $(AT_ONCE) --dist loadfile --no-loadscope-reorder \
	  --durations 20 $(PAGES)

timed:
	$(PY) -m tests.strict -q $(TIMED)

# What is slow and rarely breaks: every week, and before a release.  The tables in
# data/proofs are made anew.
proof: setup ## run the long checks: planted faults, field corpus, browser (hours)
	$(PY) -m uv pip install -q --group proof
	$(PY) -m pytest tests -m weekly -n $(CORES)
	rm -f data/proofs/faults.json data/proofs/browser.json
	$(PY) -m tests.proof faults --jobs $(CORES)
	$(PY) -m tests.field
	$(PY) -m tests.proof browser

site: setup ## build the lessons as HTML that needs no network, in .cache/site
	@$(PY) -m tools.site

format: setup ## format the code and mend what the linter can
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

refresh: setup ## run the notebooks again and store their outputs
	$(PY) -m tests.refresh

bump: setup ## follow torch: TORCH=2.16.0 runs all pages there, and lists what to read
	$(PY) -m tests.proof bump $(TORCH)

browser: setup ## run every notebook in JupyterLab in headless Chromium: cells, widgets, exercises
	@$(PY) -c "import playwright" 2>/dev/null || $(PY) -m pip install -q playwright
	$(PY) -m tests.proof browser --pictures .cache/screenshots

bench: setup ## measure what the course promises (long, wants a quiet machine)
	@for name in ratio aa picture starts; do \
	  echo "== $$name"; $(PY) -m tests.benchmarks $$name || exit 1; done

# Not after setup: a machine that is lent for its GPU has a Python with torch already.
record: ## measure on this machine's NVIDIA GPU, for data/recorded/
	@$(PYTHON) -m tools.record_gpu

clean: ## remove .venv and every file that was made here
	rm -rf .venv .cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +
