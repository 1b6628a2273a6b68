# `make run` and `make test` do all their own set-up; they need python3 (3.11 or newer), make and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test slow lint types contracts examples wheel bench soak docs clean

run: $(READY)
	$(BIN)/sojourn retrain

test: $(READY)
	$(BIN)/pytest -q -n auto --dist loadfile -m "not slow"

slow: $(READY)
	$(BIN)/pytest -q -n auto --dist loadfile -m slow

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy
	$(BIN)/basedpyright

contracts: $(READY)
	$(BIN)/lint-imports

examples: $(READY)
	$(BIN)/python examples/check.py

wheel: $(READY)
	$(BIN)/python .ci/check_wheel.py

bench: $(READY)
	$(BIN)/python benchmarks/serving.py
	$(BIN)/python benchmarks/scheduler.py
	$(BIN)/python benchmarks/simulator.py
	$(BIN)/python benchmarks/compare.py
	$(BIN)/python benchmarks/held_exits.py
	$(BIN)/python benchmarks/c_face.py

# some minutes; `make soak N=400000` for fewer operations
soak: $(READY)
	$(BIN)/python benchmarks/soak.py $(if $(N),--operations $(N))

# uv installs in seconds; where it can't be had, plain pip does the same.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "python3 must be 3.11 or newer, got " + sys.version)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q uv 2>/dev/null || true
	if test -x $(BIN)/uv; then VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install -q -e '.[dev]' -c constraints.txt; \
	else $(BIN)/python -m pip install -q -e '.[dev]' -c constraints.txt; fi
	touch $(READY)

clean:
	rm -rf $(VENV) .sojourn build dist src/*.egg-info
