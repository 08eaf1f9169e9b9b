# `make` lists the targets. PYTHON is the interpreter .venv is made with. A test
# process needs a core and up to 3 GB.
PYTHON ?= python3
TEST_PROCESSES ?= 2
ARGS ?=

BIN := .venv/bin
# PEP 517: seqeval is a source distribution whose setup.py needs what its build
# declares.
# Without --no-compile, compiling modules that are never imported takes longer
# than unpacking them.
PIP_INSTALL := pip --quiet --disable-pip-version-check install --use-pep517 \
    --no-compile
PIP := $(BIN)/python -m $(PIP_INSTALL)
PYTEST := $(BIN)/python -m pytest
# In the order of tests/conftest.py.
SIDE_BY_SIDE := -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder
GARDEN := .venv-model-garden
TPU_PINS := .venv-tpu-pins
OLD_TENSORFLOW := .venv-old-tensorflow
BEAM := .venv-beam
OPTIMUM := .venv-optimum
JAVASCRIPT := .javascript

# Every process that imports TensorFlow would compile it, for eight seconds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv peers javascript model-garden demo test test-slow test-long \
    test-backends test-peers test-more test-model-garden test-tpu-pins \
    test-old-tensorflow test-beam test-optimum test-notebooks notebooks docs \
    fuzz bench clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-20s %s\n", $$1, $$2 }' \
	    Makefile

venv: .venv/installed  ## Make .venv with the tested versions (PYTHON=python3.12)

peers: .venv/peers-installed  ## Add JAX, PyTorch, Transformers and KerasHub

javascript: $(JAVASCRIPT)/installed  ## Add transformers.js, from npm, for its tests

model-garden: $(GARDEN)/installed  ## Make an environment for Model Garden

demo: venv  ## From raw text to an exported model (flags: ARGS="--...")
	$(BIN)/albert demo $(ARGS)

test: venv  ## Lint, and run the quick tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(PYTEST) $(SIDE_BY_SIDE)

test-slow: peers  ## Run the tests that take minutes, and all random texts
	$(PYTEST) -m slow

test-long: venv  ## Run exports in other programs, whole chains, killed runs
	$(PYTEST) $(SIDE_BY_SIDE) -m "long and not slow and not peer"

notebooks: venv  ## Run the notebooks and store their outputs (ARGS="NAME.ipynb")
	$(BIN)/python notebooks/build.py $(ARGS)

test-notebooks: venv  ## Run the notebooks as their readers do
	$(PYTEST) $(SIDE_BY_SIDE) --dist worksteal -m notebook tests/notebooks

fuzz: venv  ## Open mutated checkpoints, a minute for each format
	$(PYTEST) -n 0 -m fuzz tests/interop/hostile $(ARGS)

test-backends: peers  ## Run the models' tests under JAX and PyTorch
	$(PYTEST) $(SIDE_BY_SIDE) -m backend

test-peers: peers  ## Run the comparisons with the peer libraries
	$(PYTEST) $(SIDE_BY_SIDE) -m "peer and not slow"

# Together, as each of them would first collect all tests.
test-more: peers  ## Run test-long, test-backends and test-peers in one
	$(PYTEST) $(SIDE_BY_SIDE) -m "(long or backend or peer) and not slow"

test-model-garden: venv model-garden  ## Compare with it, and transformers 4
	$(PYTEST) -m model_garden
	$(GARDEN)/bin/python -m pytest -m peer tests/text/test_huggingface_slow.py \
	    tests/text/test_tokenizer_json_folders.py

test-tpu-pins: $(TPU_PINS)/installed  ## Quick tests with the versions for TPUs
	$(TPU_PINS)/bin/python -m pytest $(SIDE_BY_SIDE)

test-old-tensorflow: venv $(OLD_TENSORFLOW)/installed  ## Exports to and from 2.18
	$(PYTEST) -m old_tensorflow

test-beam: $(BEAM)/installed  ## Pretraining data made by Apache Beam
	$(BEAM)/bin/python -m pytest -m beam tests/data/test_beam_pipeline.py

test-optimum: venv $(OPTIMUM)/installed  ## ONNX exports in optimum
	$(PYTEST) -m optimum

# The tag that is checked out, or main.
docs: .venv/docs-installed  ## Build the documentation site, build/docs/VERSION
	version=$$(git describe --tags --exact-match --match='v[0-9]*' \
	    2>/dev/null || echo main) && \
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet \
	    -b html docs build/docs/$$version

bench: peers  ## Measure the speed against the peers (quiet machine!)
	$(BIN)/python benchmarks/cpu_speed.py --output=build/cpu_speed $(ARGS)

clean:  ## Remove .venv and everything built
	rm -rf .venv $(GARDEN) $(TPU_PINS) $(OLD_TENSORFLOW) $(BEAM) \
	    $(OPTIMUM) $(JAVASCRIPT) build \
	    dist *.egg-info .pytest_cache .ruff_cache

.venv/pyvenv.cfg:
	@"$(PYTHON)" -c 'import platform, sys; \
	    sys.exit(None if (3, 10) <= sys.version_info[:2] <= (3, 13) else \
	    "$(PYTHON) is Python " + platform.python_version() + "; albert_tf " \
	    "needs 3.10 to 3.13: name one with make PYTHON=python3.12")'
	"$(PYTHON)" -m venv --clear .venv

.venv/installed: .venv/pyvenv.cfg requirements.txt pyproject.toml setup.py
	$(PIP) -r requirements.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

.venv/peers-installed: .venv/installed requirements-peers.txt
	$(PIP) -r requirements.txt -r requirements-peers.txt
	@touch $@

.venv/docs-installed: .venv/installed requirements-docs.txt
	$(PIP) -r requirements.txt -r requirements-docs.txt
	@touch $@

$(JAVASCRIPT)/installed: tests/javascript/package.json \
    tests/javascript/package-lock.json
	mkdir -p $(JAVASCRIPT)
	cp $^ $(JAVASCRIPT)
	npm ci --ignore-scripts --no-audit --no-fund --prefix $(JAVASCRIPT)
	@touch $@

# Every package is named, and dependencies that conflict on paper are not.
$(GARDEN)/installed: .venv/pyvenv.cfg requirements-model-garden.txt
	$(BIN)/python -m venv --clear $(GARDEN)
	$(GARDEN)/bin/python -m $(PIP_INSTALL) --no-deps \
	    -r requirements-model-garden.txt
	@touch $@

$(TPU_PINS)/installed: .venv/pyvenv.cfg requirements-tpu.txt pyproject.toml \
    setup.py
	$(BIN)/python -m venv --clear $(TPU_PINS)
	$(TPU_PINS)/bin/python -m $(PIP_INSTALL) -r requirements-tpu.txt
	$(TPU_PINS)/bin/python -m $(PIP_INSTALL) --no-deps --no-build-isolation \
	    --editable .
	@touch $@

$(OLD_TENSORFLOW)/installed: .venv/pyvenv.cfg requirements-old-tensorflow.txt \
    pyproject.toml setup.py
	$(BIN)/python -m venv --clear $(OLD_TENSORFLOW)
	$(OLD_TENSORFLOW)/bin/python -m $(PIP_INSTALL) \
	    -r requirements-old-tensorflow.txt
	$(OLD_TENSORFLOW)/bin/python -m $(PIP_INSTALL) --no-deps \
	    --no-build-isolation --editable .
	@touch $@

$(BEAM)/installed: .venv/pyvenv.cfg requirements-beam.txt pyproject.toml setup.py
	$(BIN)/python -m venv --clear $(BEAM)
	$(BEAM)/bin/python -m $(PIP_INSTALL) -r requirements-beam.txt
	$(BEAM)/bin/python -m $(PIP_INSTALL) --no-deps --no-build-isolation \
	    --editable .
	@touch $@

$(OPTIMUM)/installed: .venv/pyvenv.cfg requirements-optimum.txt
	$(BIN)/python -m venv --clear $(OPTIMUM)
	$(OPTIMUM)/bin/python -m $(PIP_INSTALL) -r requirements-optimum.txt
	@touch $@
