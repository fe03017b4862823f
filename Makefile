# Two commands set everything up in .venv: `make test` and `make train`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: test test-compiled test-gpu coverage matrix train clean

test: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2

test-gpu: $(VENV)/.test
	$(BIN)/pytest --device cuda

# The compiled kernels in the emulator, every combination of operator, dtype, root, launch, length and architecture.
test-compiled: $(VENV)/.test
	$(BIN)/pytest -n 2 tests/gpu/test_emulated.py --compiled

# The oldest, the pinned and the newest versions of torch, Triton, Numba and NumPy: gigabytes, by hand.
matrix: $(VENV)/.test
	$(BIN)/python -m tests.matrix

coverage: $(VENV)/.test
	$(BIN)/pytest -n 2 --cov

train: $(VENV)/.train
	$(BIN)/python train.py --model lap --fp16 --pretrain-epochs 6 --epochs 12

# One stamp per kind of install: pip runs again only when the requirements change.
$(VENV)/.test: EXTRAS := [test]
$(VENV)/.train: EXTRAS := [parsers]
$(VENV)/.test $(VENV)/.train: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".$(EXTRAS)"
	touch $@

clean:
	rm -rf $(VENV) .matrix
