PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

PYTHONS ?=

SOURCES := circlet runtime backends schema tools
# What pip does for packages that it copies: the first import of each file is then as quick as all others.
BYTECODE = $(BIN)/python -m compileall -q -j 0 $(SOURCES)

.PHONY: browser devices demo test slow native fallbacks matrix check lint types fuzz conformance bench clean

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

test: $(VENV)/.tested
	@begin=$$(date +%s); PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -m "not slow" || exit $$?; \
	echo "make test took $$(($$(date +%s) - begin)) s; on two cores it is to take less than 180 s"

slow: $(VENV)/.tested
	$(BIN)/python -m pytest -m slow

# What tests of pages show them to; without it they are skipped.
browser:
	@command -v chromium chromedriver > /dev/null || { apt-get update -q && \
	apt-get install -y -q --no-install-recommends chromium chromium-driver; } || \
	echo "no chromium and no way to install it: tests of pages are skipped"

native: $(VENV)/.tested
	CIRCLET_BACKEND=native $(BIN)/python -m pytest -m "not slow"

# What tests of code for other processors are built and run with; without a program those for it are skipped.
DEVICES = gcc-aarch64-linux-gnu gcc-riscv64-linux-gnu gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-user qemu-system-arm \
	gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf nodejs
devices:
	@command -v aarch64-linux-gnu-gcc riscv64-linux-gnu-gcc riscv64-unknown-elf-gcc arm-none-eabi-gcc qemu-aarch64 \
	qemu-riscv64 qemu-riscv32 qemu-system-arm node > /dev/null && test -d /usr/lib/picolibc/riscv64-unknown-elf || \
	{ apt-get update -q && apt-get install -y -q --no-install-recommends $(DEVICES) \
	libc6-dev-arm64-cross libc6-dev-riscv64-cross; } || \
	echo "no programs for other processors and no way to install them: tests of code for these are skipped"

fallbacks: $(VENV)/.tested
	CIRCLET_WITHOUT=shared-objects,threads $(BIN)/python -m pytest -m "not slow" tests/native tests/exec tests/test_platform.py

matrix: $(VENV)/.tested
	$(BIN)/python -m tests.matrix $(PYTHONS)

check: lint types test

lint: $(VENV)/.tested
	$(BIN)/ruff check .

types: $(VENV)/.tested
	$(BIN)/mypy

SECONDS ?= 60
SEED ?= 1
fuzz: $(VENV)/.tested
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED)

conformance: $(VENV)/.tested
	$(BIN)/python -m tests.conformance

bench: $(VENV)/.benched
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.products
	$(BIN)/python -m benchmarks.start
	$(BIN)/python -m benchmarks.cold
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.threads
	$(BIN)/python -m benchmarks.lengths
	$(BIN)/python -m benchmarks.embed
	$(BIN)/python -m benchmarks.open_code

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	$(BYTECODE)
	touch $@

$(VENV)/.tested: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	$(BYTECODE)
	touch $@ $(VENV)/.installed

$(VENV)/.benched: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	$(BYTECODE)
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
