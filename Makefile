# The front door. `make help` lists what it opens; each recipe is three lines at most.

CARGO ?= cargo
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
TRIPLE := $(shell uname -m)-unknown-linux-gnu
WORKER := $(TARGET)/$(TRIPLE)/release/provost-worker
# The worker is mounted into views that have no libraries, so it is static; crt-static needs --target.
STATIC := RUSTFLAGS='-C target-feature=+crt-static' $(CARGO) build --release --target $(TRIPLE)

.DEFAULT_GOAL := help
.PHONY: help build provost worker liar images test lint fmt fmt-check check demo bench escape fuzz-smoke tcb doc clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: provost worker ## Build both programs: target/release/provost and its static worker

# With the demo's loader in one call: apart, its SQLite would be compiled a second time.
provost: ## Build provost alone
	$(CARGO) build --release -p provost --bin provost -p worker-reader --example load_sql

worker: ## Build the static worker alone
	$(STATIC) -p provost-worker

liar: ## Build the lying worker that the hostile tests run under the real supervisor
	$(STATIC) -p provost-tests --bin lying-worker

images: ## Build the images of the docker backend (Debian's takes a minute and root); nothing is pulled
	images/build

test: build liar ## Run every test; PROVOST_REQUIRE_ALL=1 turns a skip into a failure
	$(CARGO) test --workspace

lint: ## Lint everything; a warning is a failure
	$(CARGO) clippy --workspace --all-targets -- -D warnings

fmt: ## Format everything
	$(CARGO) fmt --all

fmt-check:
	$(CARGO) fmt --all -- --check

check: fmt-check lint test ## What CI runs: formatting, lints, tests

demo: build ## A scripted session, a dozen attacks, and how each is refused
	PROVOST=$(TARGET)/release/provost LOAD_SQL=$(TARGET)/release/examples/load_sql examples/demo.sh

bench: build ## Measure against the peers; writes target/bench/report.json
	$(CARGO) run -q --release -p provost-tests --bin bench -- $(TARGET)/release/provost $(TARGET)/bench/report.json

escape: build ## Try every known escape from a real session's jail; fails if one gets through
	$(TARGET)/release/provost selftest --escape --report $(TARGET)/escape.json

fuzz-smoke: ## Fuzz each decoder of a stranger's bytes for FUZZ_SECONDS (60) from FUZZ_SEED (1)
	$(CARGO) run -q -p provost-tests --bin fuzz -- --seconds $(or $(FUZZ_SECONDS),60) \
		--seed $(or $(FUZZ_SEED),1) --crashes $(TARGET)/fuzz

tcb: ## How much must be trusted: lines, unsafe, outside crates; fails over a ceiling
	$(CARGO) run -q -p provost-tests --bin tcb

doc: ## Build the documentation of all crates
	$(CARGO) doc --workspace --no-deps

clean: ## Remove what was built
	$(CARGO) clean
