# `make demo` runs the main job, `make test` the tests; both set up what they need first.

# The first Python that is new enough; PYTHON=... says another.
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
ifndef PYTHON
PYTHON := $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python $(NEW_ENOUGH) 2> /dev/null && echo $$python && break; done)
endif
VENV := .venv
BIN := $(VENV)/bin
# Made when the packages are installed, and again when what they are changes.
INSTALLED := $(VENV)/installed

.DEFAULT_GOAL := help
.PHONY: help venv test cases fuzz lint format docs golden notebooks demo clean

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

venv: $(INSTALLED) ## install mugraph and its development tools in .venv

# Options of pip, such as --no-compile: what is imported is compiled then.
PIP_FLAGS ?=

$(INSTALLED): pyproject.toml
	@test -n "$(PYTHON)" && $(PYTHON) $(NEW_ENOUGH) || { \
		echo "mugraph needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3" >&2; \
		exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -e '.[dev]'
	touch $@

# Each worker has a processor; BLAS would start a thread for each, and they wait busily.
test: export OPENBLAS_NUM_THREADS := 1
# Tools that tests start load what the first of them compiled.
test: export PYTHONDONTWRITEBYTECODE :=
# FileCheck tests take what processors have left while workers start, wait for files and end.
test: $(INSTALLED) ## run the FileCheck and unit tests
	@mkdir -p build
	nice -n 19 $(BIN)/lit --succinct --show-unsupported tests/filecheck > build/filecheck.log 2>&1 \
		& filecheck=$$!; trap 'kill $$filecheck; exit 1' INT TERM; \
	$(BIN)/python -m pytest -r s -n auto --dist loadfile --no-loadscope-reorder; unit=$$?; \
	wait $$filecheck; filecheck=$$?; cat build/filecheck.log; \
	test $$unit -eq 0 -a $$filecheck -eq 0

# OUTPUT=benchmarks/results/NAME also writes a report.
OUTPUT ?=

cases: $(INSTALLED) ## run the tables of µGraphs on a GPU
	PYTHONPATH=tests $(BIN)/python -m cases run $(if $(OUTPUT),--output $(OUTPUT))

# How many, from which seed; COMPILE=20 also compiles every 20th with nvcc, EMULATE=20 runs it.
N ?= 1000
SEED ?= 0
COMPILE ?= 0
EMULATE ?= 0

fuzz: export MUGRAPH_THOROUGH := 1
fuzz: $(INSTALLED) ## take N random µGraphs through every pass, and run all tests with all of their draws
	PYTHONPATH=tests $(BIN)/python -m fuzz -n $(N) --seed $(SEED) \
		--compile $(COMPILE) --emulate $(EMULATE) --out build/fuzz
	MUGRAPH_CUTE_INPUTS=10000 $(BIN)/python -m pytest -q -n auto

lint: $(INSTALLED) ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(INSTALLED) ## format the sources
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(INSTALLED) ## generate the reference pages of docs/ from docstrings
	$(BIN)/python -m mugraph.tools.reference docs
	$(BIN)/python -m mugraph.tools.support docs

golden: $(INSTALLED) ## write anew the CUDA that tests compare with
	$(BIN)/python tests/unit/golden_cuda.py

notebooks: $(INSTALLED) ## run the notebooks of the examples and write what they print
	$(BIN)/python tests/unit/notebooks.py

DEMO := examples/rmsnorm_linear.mlir

demo: $(INSTALLED) ## take a µGraph all the way to a CUDA kernel, showing and checking each pass
	mkdir -p build/demo
	$(BIN)/mg-opt --verify-semantics --print-between-passes --transpile -t cuda \
		-o build/demo/rmsnorm_linear.cu $(DEMO)
	cat build/demo/rmsnorm_linear.cu
	$(BIN)/mg-run --check --time $(DEMO)
	@if $(BIN)/python -c 'from mugraph.runtime.toolchain import find_toolchain; find_toolchain()' \
		2> /dev/null; \
	then $(BIN)/mg-compile --arch sm_80,sm_90a -o build/demo/library $(DEMO); \
	else echo "left out: compiling, without nvcc; pip install 'mugraph[cuda]' brings it"; fi
	@if nvidia-smi > /dev/null 2>&1; \
	then $(BIN)/mg-run --backend=cuda --check --time $(DEMO); \
	else echo "left out: running on a GPU; there is none here"; fi

clean: ## remove the environment and what tests and builds leave
	rm -rf $(VENV) build dist src/mugraph.egg-info tests/filecheck/Output
	rm -rf .pytest_cache .ruff_cache .hypothesis
