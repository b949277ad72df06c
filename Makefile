# One target for everything a person does with polylogue; `make` alone lists them.

CARGO ?= cargo
PREFIX ?= $(HOME)/.local
ARGS ?=
TARGET := $(or $(CARGO_TARGET_DIR),target)
PROGRAM := $(TARGET)/release/polylogue
QUICK := $(TARGET)/quick/polylogue
TEST = $(CARGO) test
HOST = $(shell rustc -vV | sed -n 's/^host: //p')

# Passed to every cargo command, for example FEATURES="--no-default-features --features tls-rustls".
FEATURES ?=
MINIMAL = --no-default-features --features tls-rustls

.DEFAULT_GOAL := help
.PHONY: help run test check lint minimal fmt doc bench counts layout soak fuzz guided faults nightly recordings install dist demo clean release

help: ## list the targets
	@echo "make TARGET, with ARGS=\"...\" for what is passed on:"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-10s %s\n", $$1, $$2 }'

release:
	@$(CARGO) build --release $(FEATURES)

run: ## build quickly if needed and start the chat
	@if test -x $(QUICK) && test -z "$$(find src Cargo.toml Cargo.lock -newer $(QUICK))"; then quiet=--quiet; \
	else echo "building polylogue: some minutes the first time, seconds after a change"; fi; \
	$(CARGO) build --profile quick $$quiet $(FEATURES)
	@exec $(QUICK) $(ARGS)

# Many tests wait for processes, so four times as many threads as processors are busy.
test minimal: export RUST_TEST_THREADS ?= $(shell expr 4 \* $$(getconf _NPROCESSORS_ONLN))

# Unit tests and the minimal build are compiled in a third of the time without optimisation. The integration tests would take
# twice as long.
UNOPTIMISED = --config profile.dev.package.polylogue.opt-level=0

test: ## run every test; needs no network
	$(TEST) $(UNOPTIMISED) $(FEATURES) --lib $(ARGS)
	$(TEST) $(FEATURES) --test all $(ARGS)
	$(TEST) $(FEATURES) --doc

check: ## what must hold before a merge: format, lint, tests, docs, and the minimal build
	$(CARGO) fmt --check
	$(MAKE) --no-print-directory TEST=.ci/test lint test doc minimal

# What differs without optional features, and what a core is; every other test does the same in both builds.
OF_FEATURES = features:: layers:: acp::editor commands::custom frames:: lines:: print:: sandbox::proxy scenarios:: \
	semantics:: store:: terminals::answers timeouts:: tools::slips tools_and_approvals:: environments::a_child_in_another

minimal: ## lint the build without optional features, and test what differs in it
	$(CARGO) clippy --all-targets $(MINIMAL) -- -D warnings
	$(TEST) $(UNOPTIMISED) $(MINIMAL) --lib
	$(TEST) $(UNOPTIMISED) $(MINIMAL) --test all -- $(OF_FEATURES)

lint: ## run clippy on everything, with warnings as errors
	$(CARGO) clippy --all-targets $(FEATURES) -- -D warnings

fmt: ## format the code
	$(CARGO) fmt

doc: ## build the documentation, with warnings as errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --document-private-items $(FEATURES)

bench: ## measure the figures (release build, several minutes)
	$(CARGO) bench --bench figures $(FEATURES) --bench figures -- $(ARGS)

soak: ## run random users against a hostile provider: ARGS="--minutes 60"
	$(CARGO) bench --bench figures $(FEATURES) --bench figures -- soak $(ARGS)

fuzz: ## try generated inputs on every decoder: ARGS="--minutes 60"
	$(CARGO) bench --bench figures $(FEATURES) --bench figures -- fuzz $(ARGS)

# The flags that make rustc count which code was reached, as cargo-fuzz sets them. TARGET_NAME is a target of `make fuzz`.
GUIDED = -Cpasses=sancov-module $(addprefix -Cllvm-args=-sanitizer-coverage-,level=4 inline-8bit-counters pc-table trace-compares)
FUZZ_TARGET ?= mcp
MINUTES ?= 5

guided: release ## look for inputs that reach new code (needs a C++ compiler): FUZZ_TARGET=mcp MINUTES=60
	@mkdir -p $(TARGET)/guided/corpus/$(FUZZ_TARGET)
	@cp Cargo.lock tests/fuzz/Cargo.lock
	RUSTFLAGS="$(GUIDED)" CARGO_BIN_EXE_polylogue="$(abspath $(PROGRAM))" FIXTURES="$(CURDIR)/fixtures" \
		$(CARGO) build --release --target $(HOST) --manifest-path tests/fuzz/Cargo.toml --target-dir $(TARGET)/guided
	TARGET=$(FUZZ_TARGET) $(TARGET)/guided/$(HOST)/release/guided -max_total_time=$$(($(MINUTES) * 60)) -timeout=20 \
		-artifact_prefix=$(TARGET)/guided/ $(ARGS) $(TARGET)/guided/corpus/$(FUZZ_TARGET)

counts: release ## print what a start costs in system calls and page faults, and compare it with the last table
	POLYLOGUE_TEST_PROGRAM="$(abspath $(PROGRAM))" $(TEST) $(FEATURES) --test all -- --nocapture counts::

layout: ## find out which functions a start runs, for the linker (needs valgrind): writes .cargo/start.ld
	$(CARGO) rustc --release --bin polylogue $(FEATURES) -- -C strip=none
	.cargo/layout $(PROGRAM) .cargo/start.ld

faults: ## make everything fail that can fail, at every place (several minutes)
	POLYLOGUE_TEST_FULL=1 $(TEST) $(FEATURES) --test all -- faults:: $(ARGS)

nightly: ## run every test at its full size, faults included (half an hour)
	@POLYLOGUE_TEST_FULL=1 $(MAKE) --no-print-directory test

recordings: ## record 100 random sessions of 2,000 actions and replay them (some seven minutes)
	POLYLOGUE_TEST_RECORDINGS=100 $(TEST) $(FEATURES) --test all -- --nocapture recordings:: $(ARGS)

SHARE = $(DESTDIR)$(PREFIX)/share

install: release ## install program, manual page and completions into PREFIX, by default ~/.local
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(SHARE)/man/man1" "$(SHARE)/bash-completion/completions" \
		"$(SHARE)/zsh/site-functions" "$(SHARE)/fish/vendor_completions.d"
	install -m 755 $(PROGRAM) "$(DESTDIR)$(PREFIX)/bin/polylogue"
	$(PROGRAM) man > "$(SHARE)/man/man1/polylogue.1"
	$(PROGRAM) completions bash > "$(SHARE)/bash-completion/completions/polylogue"
	$(PROGRAM) completions zsh > "$(SHARE)/zsh/site-functions/_polylogue"
	$(PROGRAM) completions fish > "$(SHARE)/fish/vendor_completions.d/polylogue.fish"

# The target is named so that the flag holds for the program and not for build scripts and procedural macros.
dist: ## build the one-file static program and show its size and what it needs
	RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --release --target $(HOST) $(FEATURES)
	@ls -lh $(TARGET)/$(HOST)/release/polylogue
	@ldd $(TARGET)/$(HOST)/release/polylogue || true

demo: ## play a scripted tour with echo agents: ARGS="--pictures DIR" draws its screens as well
	$(CARGO) bench --quiet $(FEATURES) --bench demo -- $(ARGS)

clean: ## remove everything that was built
	$(CARGO) clean
