SHELL := /bin/sh
PY := .venv/bin/python
# What make verify asks; the defaults are the demo's cluster.
SERVICE_URL ?= pulsar://127.0.0.1:6650
ADMIN_URL ?= http://127.0.0.1:8080

# Some images set it; each of the many processes of a run then compiles all it imports, for seconds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup tools images demo demo-down demo-geo demo-geo-down newcomer test test-fast lint unit integration standalone e2e e2e-full areas faults mutants mutations weeks hostile newer-pulsar crds memory bench-objects bench-objects-real bench-config-store bench-ledger-scan bench-data-plane bench-balance bench-autoscaling bench-traffic bench-spark cluster verify verify-mutations verify-stock verify-newer

help: ## This list
	@grep -hE '^[a-z][a-z0-9-]*:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  \033[1mmake %-14s\033[0m %s\n", $$1, $$2}'

setup: ## Python environment with the locked dependencies, in .venv; a hook of git that checks subjects of commits
	@sh scripts/bootstrap.sh
	@sh scripts/install_hooks.sh

tools: setup ## kubectl, helm, kind, kube-apiserver, etcd, the Pulsar server tarball (cached)
	@$(PY) -m e2e.kind tools

images: setup ## All images; REGISTRY=host/path names them for a registry, PUSH=1 pushes, PLATFORM=linux/amd64,linux/arm64
	@$(PY) -m e2e.kind images $(if $(REGISTRY),--registry '$(REGISTRY)') $(if $(PUSH),--push) $(if $(PLATFORM),--platform '$(PLATFORM)')

demo: setup ## From a bare machine to messages through the proxy (KUBE_CONTEXT=... uses an existing cluster)
	@$(PY) -m e2e.demo

newcomer: setup ## README followed from a clone to a first message: fresh cluster, registry of its own; prints the minutes
	@$(PY) -m e2e.newcomer

demo-down: setup ## Remove the demo cluster
	@$(PY) -m e2e.kind down pulsar-demo

demo-geo: setup ## Two clusters that replicate: a message across, a region lost, the configuration store lost, and back
	@$(PY) -m e2e.demo.geo

demo-geo-down: setup ## Remove the cluster of demo-geo
	@$(PY) -m e2e.kind down pulsar-demo-geo

test: setup ## Everything, in two lanes at once (half an hour); SLICE=name adds a slice of the long tests
	@$(PY) -m tests.suite test --slice '$(SLICE)'

test-fast: setup ## Static checks, unit and contract tests; Python, Java and openssl alone
	@$(PY) -m tests.suite fast

lint: setup ## Static checks
	@sh scripts/lint.sh

integration: tools ## Integration tests: real kube-apiserver, etcd, ZooKeeper
	@$(PY) -m pytest tests/integration -q -m "not slow"

standalone: tools ## Contracts, policies, hostile text, mutations and entry filters on one real Pulsar process (minutes)
	@$(PY) -m pytest tests/standalone -m "not slow"

e2e: setup ## End-to-end tests on kind, the lane of make test that is one
	@$(PY) -m tests.suite kind

e2e-full: setup ## Long tests, slice by slice: AREA=balance|rolls|bookies|geo|autoscaling|storage|safety, a slice of them, or all; RECORD=1
	@$(PY) -m tests.suite area $(AREA) $(if $(RECORD),--record)

areas: setup ## The slices of the long tests, and when each ran last
	@$(PY) -m tests.suite areas

faults: tools ## Every kill and every fault at every place, in memory and on real servers, with a table at the end (hours)
	@$(PY) -m pytest tests/unit tests/contract tests/integration -m faults -s

mutants: setup ## A sample of small changes of the code (SEED, SIZE): do unit and contract tests notice? At most an hour
	@$(PY) -m tests.mutants $(if $(SEED),--seed $(SEED)) $(if $(SIZE),--size $(SIZE))

mutations: tools ## Every field of the logical kinds changed and changed back, in memory and on a real Pulsar (half an hour)
	@$(PY) -m pytest tests/unit/mutations tests/standalone/test_mutations_real.py -m slow -k "test_all or test_made"

weeks: setup ## The recorded weeks of sizing that make test leaves out, and generated tables, on real Spark (minutes)
	@$(PY) -m pytest tests/unit/sizing/test_sizing_weeks.py tests/unit/sizing/test_generated_history.py -m slow

hostile: tools ## Hostile text in every place of the logical kinds, all in memory and on a real Pulsar (a quarter of an hour)
	@$(PY) -m pytest tests/unit/core/test_canary.py tests/unit/logical/test_hostile_text.py tests/standalone/test_hostile_real.py -m slow

newer-pulsar: setup ## The policies that only a newer Pulsar has, on a standalone of it (minutes)
	@$(PY) -m e2e.kind newer-pulsar && $(PY) -m pytest tests/standalone/test_newer_pulsar_real.py -m slow

crds: setup ## Generate crds/, the charts' copies and the tables in docs/ from the code
	@$(PY) -m pulsar_operator.crdgen --out crds && $(PY) helm/sync_charts.py && $(PY) scripts/gen_docs.py

bench-objects: tools ## Speed and memory with 1k, 5k and 10k topics on a real API server (half an hour)
	@$(PY) -m benchmarks.objects

bench-objects-real: tools ## The same with 1,000 topics on a real Pulsar standalone
	@$(PY) -m benchmarks.objects --standalone --sizes 1000 --sets 1000 --foreign 0 --csv build/benchmarks/objects-real.csv

bench-config-store: tools ## One change in four clusters that share a real ZooKeeper; one of them hangs (minutes; QUICK=1)
	@$(PY) -m benchmarks.config_store $(if $(QUICK),--quick)

bench-ledger-scan: tools ## All ledgers examined for a bookie that leaves, in a real ZooKeeper (LEDGERS=1000000: half an hour)
	@$(PY) -m benchmarks.ledger_scan $(if $(LEDGERS),--ledgers $(LEDGERS))

bench-data-plane: tools ## Publish latency of a real broker with 1k, 10k and 100k topics (half an hour; SIZES=1000,10000)
	@$(PY) -m benchmarks.data_plane $(if $(SIZES),--sizes $(SIZES))

bench-balance: setup ## Where to cut, when to shed, how fast to plan: against Pulsar's own rules, re-built (SEEDS; hours)
	@$(PY) -m benchmarks.balance all $(if $(SEEDS),--seeds $(SEEDS))

bench-autoscaling: setup ## Weeks of brokers and bookies: SLO minutes and server-hours, against HPA and published rules (SEEDS, QUICK=1)
	@$(PY) -m benchmarks.autoscaling $(if $(SEEDS),--seeds $(SEEDS)) $(if $(QUICK),--quick)

bench-traffic: tools ## Memory and event loop of the operator at a look and a drain with 1,000,000 topics on 50 brokers (TOPICS=100000)
	@$(PY) -m benchmarks.traffic $(if $(TOPICS),--topics $(TOPICS))

bench-spark: setup ## The sizing job on 20 million rows, DuckDB and Polars with the same plan beside it
	@$(PY) -m benchmarks.spark

memory: setup ## Resident memory of the demo cluster's pods, against the bar of preset Small
	@$(PY) -m benchmarks.memory pulsar-demo pulsar

cluster: setup ## The demo's kind cluster with images, nothing installed
	@$(PY) -m e2e.kind up pulsar-demo

CONFORMANCE = $(PY) -m e2e.kind java-client && mkdir -p build && $(PY) -m pulsar_conformance \
	--service-url '$(SERVICE_URL)' --admin-url '$(ADMIN_URL)' $(if $(ONLY),--only '$(ONLY)') \
	$(if $(REMOTE_SERVICE_URL),--remote-service-url '$(REMOTE_SERVICE_URL)') \
	$(if $(REMOTE_ADMIN_URL),--remote-admin-url '$(REMOTE_ADMIN_URL)') \
	$(if $(FOREIGN_SERVICE_URL),--foreign-service-url '$(FOREIGN_SERVICE_URL)') \
	$(if $(FOREIGN_ADMIN_URL),--foreign-admin-url '$(FOREIGN_ADMIN_URL)') \
	$(if $(TOKEN_FILE),--token-file '$(TOKEN_FILE)') \
	$(if $(CA_FILE),--ca-file '$(CA_FILE)') \
	$(if $(ROLE_TOKEN_FILE),--role '$(ROLE)' --role-token-file '$(ROLE_TOKEN_FILE)') \
	--java-classpath "$$($(PY) -c 'from e2e.kind.paths import paths; print(paths().java_client)')"
# What the demo's cluster skips is known.
EXPECTED = $(if $(filter file,$(origin SERVICE_URL)),--expect-skips)

verify: setup ## Prove with real clients what Pulsar promises (SERVICE_URL, ADMIN_URL, TOKEN_FILE, CA_FILE, ROLE, ROLE_TOKEN_FILE, ONLY)
	@$(CONFORMANCE) $(EXPECTED) --json build/conformance.json --junit build/conformance.xml

verify-mutations: setup ## Break what each of those checks proves and see it fail (the same variables)
	@$(CONFORMANCE) --mutations --json build/mutations.json

verify-stock: tools ## The same checks on a standalone of the tested Pulsar with its own settings, no operator (minutes)
	@mkdir -p build && $(PY) -m tests.support.standalone.stock --json build/conformance-stock.json

verify-newer: setup ## The same on a standalone of the newer Pulsar
	@$(PY) -m e2e.kind java-client && $(PY) -m e2e.kind newer-pulsar && mkdir -p build && $(PY) -m tests.support.standalone.stock --newer --json build/conformance-newer.json
