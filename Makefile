# Every target that is not a file. `make` alone lists them.
.PHONY: help test build cross lint race fuzz sim chaos interop bench microbench compare cluster clean
.DEFAULT_GOAL := help

GO        ?= go
TESTFLAGS ?=
FUZZTIME  ?= 20s
FUZZJOBS  ?= 1
SEEDS     ?= 10000
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT    ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS   := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "%-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

test: ## every test that needs only Go; what else a test needs, it names when it skips (-v)
	$(GO) test ./...

build: ## bin/ticketing, static and stamped with version and commit
	CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -o bin/ticketing ./cmd/ticketing

cross: ## compile for the other systems: linux/arm64, darwin, and the client for windows
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build ./...
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 $(GO) build ./client/...

lint: ## gofmt, go vet, staticcheck and govulncheck, at pinned versions
	.ci/lint

# The mutants are thousands of simulations, each in one goroutine: slow under the detector, with nothing to race.
race: ## the tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -skip '^TestMutants$$' $(TESTFLAGS) ./...

fuzz: ## every fuzz target, FUZZTIME (20s) each, FUZZJOBS (1) at a time
	FUZZTIME=$(FUZZTIME) FUZZJOBS=$(FUZZJOBS) .ci/fuzz

sim: ## the cluster simulator, SEEDS (10000) seeds
	SEEDS=$(SEEDS) $(GO) test ./raft/rafttest -count=1 -v -timeout 60m -run '^TestSeeds$$'

chaos: ## real processes killed, stopped and partitioned
	CHAOS=1 $(GO) test ./cmd/ticketing -count=1 -v -timeout 30m -run '^TestChaos'
	CHAOS=1 $(GO) test ./client -count=1 -v -timeout 10m -run '^TestCluster'

interop: ## the clients that others published, against the real server (needs their languages)
	interop/run

bench: build ## every budget of one server and of three nodes, with a bare echo server beside them, as a table
	$(GO) test ./client -run '^$$' -bench 'Pair|Latency' -benchmem
	bin/ticketing bench --suite --cluster

microbench: ## benchmarks of the packages
	$(GO) test -run '^$$' -bench . -benchmem ./...

compare: ## side by side with Redis, etcd and ZooKeeper
	@echo "make compare: there is no comparison in this version" >&2; exit 1

cluster: build ## three nodes on this machine, until interrupted
	deploy/three-nodes

clean: ## remove what the other targets made
	rm -rf bin .scratch
