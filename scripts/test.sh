#!/bin/sh
# Runs the tests asked for; all set-up is done by the steps themselves. pytest's closing line is printed last.
set -eu
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
PY=.venv/bin/python

lint() {
    echo "== static checks"
    $PY -m ruff check .
    $PY -m ruff format --check .
    $PY -m mypy
    $PY -m mypy e2e/kind e2e/demo e2e/support e2e/counting e2e/conformance benchmarks
    .venv/bin/lint-imports
    $PY -m pulsar_operator.crdgen --check --out crds
    $PY helm/sync_charts.py --check
    $PY scripts/gen_docs.py --check
}

case "${1:-all}" in
    lint) lint ;;
    fast) lint; $PY -m pytest tests/unit tests/contract -m "not slow" ;;
    e2e)
        $PY -m e2e.kind up pulsar-e2e --pulsar-port 16650 --web-port 18080
        $PY -m pytest e2e -m "not slow" ;;
    e2e-full)
        $PY -m e2e.kind up pulsar-e2e --pulsar-port 16650 --web-port 18080
        $PY -m pytest e2e ;;
    all)
        lint
        $PY -m e2e.kind tools
        $PY -m e2e.kind up pulsar-e2e --pulsar-port 16650 --web-port 18080
        $PY -m pytest tests/unit tests/contract tests/integration tests/standalone e2e -m "not slow" --durations=15 ;;
    *) echo "usage: scripts/test.sh all|fast|lint|e2e|e2e-full" >&2; exit 2 ;;
esac
