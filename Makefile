# podgrade. `make demo` and `make test` do all set-up that they need; see
# README.md for what they ask of the machine and HACKING.md for the rest.

GO       ?= go
BUILD    := $(CURDIR)/build
PREFIX   ?= /usr/local
DESTDIR  ?=
FUZZTIME ?= 30s
# What test, cover and soak run.
PACKAGES ?= ./...
# Those of them that take longest, which therefore begin first.
LONGEST  := ./cmd/podgrade ./isolation ./regrade
SOAK     ?= 20
# Tests to leave out, as -skip takes them; none by default.
SKIP     ?=
# Tests to run alone, as -run takes them, and whether those of root run too when
# it is not all packages.
RUN      ?=
ROOTS    ?=

# Pure Go, static, without the parts of the Podman bindings that need C, and without
# those that only Podman itself needs: other transports, and signatures of a
# transparency log. Scripts read this line.
TAGS := remote,containers_image_openpgp,containers_image_docker_daemon_stub,containers_image_rekor_stub
export CGO_ENABLED := 0
export GOFLAGS     := -tags=$(TAGS) -buildvcs=false -trimpath
export PODGRADE_TEST_BUILD := $(BUILD)
export PATH := $(PATH):/usr/local/go/bin

SMALL    := -ldflags='-s -w'
# As root, compiled tests are run by an unprivileged user.
ifeq ($(shell id -u),0)
EXEC     := -exec $(CURDIR)/.ci/as-user
# The tests that need root to make cells.
ASROOT   := -tags=$(TAGS),asroot
ASUSER   := $(CURDIR)/.ci/as-user
endif

HOSTILE  := $(notdir $(patsubst %/,%,$(dir $(wildcard isolation/testdata/*/main.go))))

.PHONY: goflags build build-test test test-unified lint demo bench cover fuzz soak install clean \
	test-user test-root test-here demo-here bench-here cover-here soak-here

## Building

# What go needs to do the same by hand.
goflags:
	@echo '$(GOFLAGS)'

build:
	$(GO) build $(SMALL) -o $(BUILD)/bin/podgrade ./cmd/podgrade
	$(GO) build $(SMALL) -o $(BUILD)/libexec/podgrade/podgrade-init ./cmd/podgrade-init
	$(GO) build $(SMALL) -o $(BUILD)/libexec/podgrade/podgrade-worker ./cmd/podgrade-worker
	$(GO) build $(SMALL) -o $(BUILD)/libexec/podgrade/podgrade-libpod ./cmd/podgrade-libpod

# Programs that only tests and the demo start. Those in isolation/testdata run
# inside cells, so they are static as everything here is.
build-test: build
	$(GO) build $(SMALL) -o $(BUILD)/test/fixture ./tasks/examples/fixture
	$(GO) build $(SMALL) -o $(BUILD)/test/testimage ./isolation/testimages/testimage
	$(foreach p,$(HOSTILE),$(GO) build $(SMALL) -o $(BUILD)/test/$(p) ./isolation/testdata/$(p) &&) true

# Root has a build cache of its own, in which all would be built anew: what the
# user has built is installed.
install: $(if $(and $(filter 0,$(shell id -u)),$(wildcard $(BUILD)/bin/podgrade)),,build)
	@there=$(DESTDIR)$(PREFIX); until [ -e "$$there" ]; do there=$$(dirname "$$there"); done; [ -w "$$there" ] || \
		{ echo "install: $$there cannot be written; do: sudo make install, or make install PREFIX=\$$HOME/.local" >&2; exit 2; }
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/libexec/podgrade
	install -m 0755 $(BUILD)/bin/podgrade $(DESTDIR)$(PREFIX)/bin/
	install -m 0755 $(BUILD)/libexec/podgrade/podgrade-init $(BUILD)/libexec/podgrade/podgrade-worker \
		$(BUILD)/libexec/podgrade/podgrade-libpod \
		$(DESTDIR)$(PREFIX)/libexec/podgrade/

clean:
	rm -rf $(BUILD)

## Running. Each makes the machine ready, then works where the user of the
## cells can read: root gets a copy of the tree, see .ci/tree.

test demo bench cover soak:
	.ci/prepare $(if $(filter demo,$@),demo,test)
	.ci/tree $(MAKE) --no-print-directory OUT=$(BUILD) $@-here

# The tests of root run beside the user's.
test-here: build-test
	$(MAKE) -k -j 2 --no-print-directory OUT=$(OUT) test-user $(if $(and $(EXEC),$(or $(ROOTS),$(filter ./...,$(PACKAGES)))),test-root)

# Three packages at a time: tests of cells wait for something much of theirs. Lint
# is what vets: to vet once more here would be a sixth of all. Without what only a
# debugger reads, the test programs are linked in half the time.
test-user:
	$(GO) test $(SMALL) -count=1 -p 3 -vet=off -timeout 30m $(if $(SKIP),-skip '$(SKIP)') $(if $(RUN),-run '$(RUN)') $(EXEC) \
		$(if $(filter ./...,$(PACKAGES)),$(LONGEST)) $(PACKAGES)

test-root:
	PODGRADE_TEST_USER=root $(GO) test $(SMALL) -count=1 -p 1 -vet=off $(EXEC) $(ASROOT) -run '^TestAsRoot' ./isolation ./cmd/podgrade
	PODGRADE_TEST_USER=podgrade-large $(GO) test $(SMALL) -count=1 -vet=off $(EXEC) -run '^TestUsersAndCapabilitiesAreTheSameOnBothEngines$$' ./isolation

demo-here: build-test
	$(ASUSER) tasks/examples/demo.sh $(BUILD)

bench-here: build-test
	$(GO) build $(SMALL) -o $(BUILD)/test/podgrade-bench ./cmd/podgrade-bench
	$(ASUSER) $(BUILD)/test/podgrade-bench -build $(BUILD)

soak-here: build-test
	PODGRADE_TEST_SOAK=yes $(GO) test -count=$(SOAK) -p 1 -vet=off -timeout 6h $(EXEC) \
		$(if $(filter ./...,$(PACKAGES)),./isolation/... ./regrade/... ./cmd/...,$(PACKAGES))

cover-here: build-test
	mkdir -p $(OUT)
	$(GO) test -count=1 -p 4 -vet=off -timeout 30m $(EXEC) -coverprofile=$(OUT)/cover.out $(PACKAGES)
	$(GO) tool cover -func=$(OUT)/cover.out | tail -n 1
	$(GO) tool cover -html=$(OUT)/cover.out -o $(OUT)/cover.html

# Tests of a host with control groups of version 2 alone, in a virtual machine of
# that Debian: some twenty minutes, and no part of .ci/run.
SUITE ?= bookworm
test-unified: build-test
	.ci/unified/run $(SUITE)

## Looking

# HOW=quick leaves staticcheck out, and what uses Podman's bindings.
HOW ?=
lint:
	.ci/lint/run $(HOW)

fuzz:
	.ci/fuzz $(FUZZTIME)
