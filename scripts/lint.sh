#!/bin/sh
# The static checks: a line for each with its seconds, what the failed ones print, and their names at the end.
set -u
cd "$(dirname "$0")/.." || exit 2
BIN=.venv/bin
PY=$BIN/python
cache="${XDG_CACHE_HOME:-$HOME/.cache}/pulsar-operator"
mkdir -p "$cache"
output=$(mktemp) || exit 2
trap 'rm -f "$output"' EXIT
failed=""

check() { # check NAME COMMAND...
    name=$1
    shift
    begin=$(date +%s)
    if "$@" >"$output" 2>&1; then
        printf '%-16s ok     %3d s\n' "$name" $(($(date +%s) - begin))
        grep '^note: ' "$output" || true
    else
        printf '%-16s FAILED %3d s: %s\n' "$name" $(($(date +%s) - begin)) "$*"
        cat "$output"
        failed="$failed $name"
    fi
}

# mypy has a cache in each checkout, since runs beside each other must not share one. A checkout without begins with the
# copy in the cache folder that some checkout with the same dependencies left there; it is renewed once a day.
kept="$cache/mypy-$(cksum <requirements/dev.txt | cut -d ' ' -f 1).tar"
if [ ! -d .mypy_cache ] && [ -f "$kept" ]; then
    tar -xf "$kept" || rm -rf .mypy_cache
fi

keep_mypy_cache() {
    case " $failed " in *" mypy "*) return ;; esac
    [ -z "$(find "$kept" -mtime -1 2>/dev/null)" ] || return
    # A name of its own until it is whole: another run may read it, or write its own, at any moment.
    tar -cf "$kept.$$" .mypy_cache && mv -f "$kept.$$" "$kept"
    find "$cache" -maxdepth 1 -name 'mypy-*.tar*' -mtime +7 -exec rm -f {} +
}

check ruff $PY -m ruff check .
check ruff-format $PY -m ruff format --check .
check mypy $PY -m mypy
keep_mypy_cache
check import-linter $BIN/lint-imports
check definitions $PY -m pulsar_operator.crdgen --check --out crds
check charts $PY helm/sync_charts.py --check
check words $PY scripts/check_words.py
check docs $PY scripts/gen_docs.py --check
check commits $PY scripts/check_commits.py

[ -z "$failed" ] || { echo "static checks failed:$failed" >&2; exit 1; }
