# `make run` and `make test` do all their own set-up; they need python3 (3.11 or newer), make and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUNS := $(VENV)/.runs
CHECKED := 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "python3 must be 3.11 or newer, got " + sys.version)'

.PHONY: run test slow kube fuzz steady lint types contracts size tables examples wheel image site pictures bench board soak scale faults docs clean

# the whole job on a real log: three months of a supercomputer of 1993 (docs/traces.md names its source). Byte code is
# kept, also where Python is told to keep none, else each start compiles MLflow and Prefect anew.
run: $(RUNS)
	PYTHONDONTWRITEBYTECODE= $(BIN)/sojourn train examples/nasa-ipsc-1993.swf.gz --model-name sojourn-lifetime

# nothing is drawn at random here: Hypothesis draws the same examples, and sets have the same order. Byte code is kept,
# else each process compiles all files of the tests anew.
test: $(READY)
	PYTHONDONTWRITEBYTECODE= PYTHONHASHSEED=0 $(BIN)/pytest -q -n auto --dist loadfile -m "not slow"

# one process more than there are cores, and the longest files first (tests/conftest.py); no doctest is slow
slow: $(READY)
	PYTHONDONTWRITEBYTECODE= PYTHONHASHSEED=0 $(BIN)/pytest -q -n auto --dist loadfile --no-loadscope-reorder -m slow tests

# the extender in a real control plane, without containers: SOJOURN_KUBE is a folder whose bin has kube-apiserver and
# kube-scheduler; etcd and openssl are in PATH
kube: $(READY)
	SOJOURN_KUBE=$(or $(SOJOURN_KUBE),/tmp/kube) $(BIN)/pytest -q -s tests/serving/kubernetes/test_real_control_plane.py
	$(BIN)/python benchmarks/control_plane.py $(or $(SOJOURN_KUBE),/tmp/kube)

# new examples for every test that uses Hypothesis; `make fuzz FUZZ="--seconds 3600"` for longer
fuzz: $(READY)
	$(BIN)/python .ci/fuzz.py $(FUZZ)

# `make test` N times in a row, the last BUSY of them beside two busy processes; prints how many passed
steady: $(READY)
	$(BIN)/python .ci/steady.py --runs $(or $(N),20) --busy $(or $(BUSY),5)

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy & mypy=$$!; $(BIN)/basedpyright; pyright=$$?; wait $$mypy && exit $$pyright

contracts: $(READY)
	$(BIN)/lint-imports

# files and lines of the product, beside their budget
size: $(READY)
	$(BIN)/python .ci/size.py

# the tables of the docs that list readers, families, policies, presets, metrics and measures
tables: $(READY)
	PYTHONPATH=. $(BIN)/python tests/docs_tables.py

examples: $(READY)
	$(BIN)/python examples/check.py
	$(BIN)/python .ci/check_docs.py

# the pages of docs/ and the docstrings as a site in build/site; a warning or a dead link fails
site: $(READY)
	rm -rf build/site
	$(BIN)/sphinx-build -q -W --keep-going -d build/site-doctrees -b html docs build/site
	$(BIN)/python .ci/check_site.py build/site

# the docs' pictures of MLflow's and Prefect's pages, taken by the tests that look at them
pictures: $(READY)
	UI_PICTURES=docs $(BIN)/pytest -q -p no:xdist tests/ui/test_team_pages.py

wheel: $(READY)
	$(BIN)/python .ci/check_wheel.py

# the steps of deploy/Containerfile, without a registry
image: $(READY)
	$(BIN)/python .ci/check_image.py

bench: $(READY)
	$(BIN)/python benchmarks/serving.py
	$(BIN)/python benchmarks/scheduler.py
	$(BIN)/python benchmarks/simulator.py
	$(BIN)/python benchmarks/compare.py
	$(BIN)/python benchmarks/c_face.py
	$(BIN)/python benchmarks/periodicity.py

# the public benchmark: scores the committed entries of the lite tasks anew and writes bench/board/lite.*
board: $(READY)
	$(BIN)/python -m bench.board

# some minutes; `make soak N=400000` for fewer operations
soak: $(READY)
	$(BIN)/python benchmarks/soak.py $(if $(N),--operations $(N))

# about half an hour and 8 GB; `make scale SCALE="--sizes 10000 100000"` for less
scale: $(READY)
	$(BIN)/python benchmarks/scale.py $(SCALE)

# an hour; `make faults FAULTS="--rows killed-retrain --budget-s 600"` for less; docs/reliability.md is made of it
faults: $(READY)
	$(BIN)/python -m benchmarks.faults --page docs/reliability.md $(FAULTS)

# uv installs in seconds; where it can't be had, plain pip does the same
define install
	if test -x $(BIN)/uv; then VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install -q -e '.[$(1)]' -c constraints.txt; \
	else $(BIN)/python -m pip install -q -e '.[$(1)]' -c constraints.txt; fi
	touch $@
endef

# what the program needs, and no more: the developers' tools are two fifths of all
$(RUNS): pyproject.toml constraints.txt $(wildcard serving/native/*.[ch] serving/c/core/*.h)
	$(PYTHON) -c $(CHECKED)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q uv 2>/dev/null || true
	$(call install,pipeline)

$(READY): $(RUNS)
	$(call install,dev)

# what `make` made; the store .sojourn stays (`sojourn store clean` removes what it no longer needs)
clean:
	rm -rf $(VENV) build dist src/*.egg-info
