#!/bin/sh
# Static checks.
set -eu
cd "$(dirname "$0")/.."
PY=.venv/bin/python
$PY -m ruff check .
$PY -m ruff format --check .
$PY -m mypy
$PY -m mypy e2e/kind e2e/demo e2e/support e2e/counting e2e/conformance benchmarks tests/suite
.venv/bin/lint-imports
$PY -m pulsar_operator.crdgen --check --out crds
$PY helm/sync_charts.py --check
$PY scripts/gen_docs.py --check
