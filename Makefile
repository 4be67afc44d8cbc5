PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
APT := DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Acquire::Retries=0 -o Acquire::http::Timeout=20

.PHONY: run test browser bench format clean

run: $(VENV)/ready  ## Train on five gravities, adapt to two others, write a report.
	$(BIN)/adarl run cartpole-gravity

test: $(VENV)/ready browser  ## The gate: format, lint, types, tests, one smoke run of every command.
	$(BIN)/ruff format --check adarl tests benchmarks
	$(BIN)/ruff check adarl tests benchmarks
	$(BIN)/pyright
	$(BIN)/pytest

browser:  ## Debian's Chromium for the tests of the report. Without it they are skipped; this never fails.
	@if command -v chromium >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing chromium for the tests of the report, for five minutes at most."; \
		timeout -k 10 300 sh -c '$(APT) update && $(APT) install --no-install-recommends chromium' </dev/null >/dev/null 2>&1 \
			|| echo "chromium could not be installed; the tests that need a browser are skipped."; \
	else echo "No chromium here, and installing it takes root and apt-get; the tests that need a browser are skipped."; fi

bench: .venv-bench/ready  ## The slow science: the tables in results/
	.venv-bench/bin/python benchmarks/search.py
	.venv-bench/bin/adarl table cartpole-mdp
	.venv-bench/bin/adarl table distracted
	.venv-bench/bin/adarl table cartpole-pomdp
	.venv-bench/bin/python benchmarks/identification.py
	.venv-bench/bin/python benchmarks/distracted.py
	.venv-bench/bin/python benchmarks/adaptation.py
	.venv-bench/bin/python benchmarks/locate.py
	.venv-bench/bin/python benchmarks/gymnasium_envs.py
	.venv-bench/bin/python benchmarks/killed.py
	.venv-bench/bin/python benchmarks/speed.py
	.venv-bench/bin/python benchmarks/images.py
	.venv-bench/bin/python benchmarks/model_time.py
	.venv-bench/bin/python benchmarks/recordings.py
	.venv-bench/bin/python benchmarks/beliefs.py
	.venv-bench/bin/python benchmarks/hears.py

format: $(VENV)/ready
	$(BIN)/ruff format adarl tests benchmarks
	$(BIN)/ruff check --fix adarl tests benchmarks

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

.venv-bench/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --disable-pip-version-check 'torch==2.13.0'
	.venv-bench/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	touch $@

clean:
	rm -rf $(VENV) .venv-bench
