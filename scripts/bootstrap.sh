#!/bin/sh
# Makes .venv with the locked dependencies. Everything after this is Python. Safe to run again; does nothing when current.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
stop() { say "error: $*"; exit 1; }

have_python() {
    "$1" -c 'import sys, ensurepip, venv; sys.exit(0 if sys.version_info >= (3, 11) else 1)' >/dev/null 2>&1
}

find_python() {
    for candidate in "${PYTHON:-}" python3.11 python3 python3.12 python3.13 python3.14; do
        [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 && have_python "$candidate" && echo "$candidate" && return 0
    done
    return 1
}

if ! PY=$(find_python); then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing python3 and python3-venv (Debian)"
        apt-get update -qq >&2
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3 python3-venv >&2
        PY=$(find_python) || stop "Python 3.11 or newer is needed; this Debian has an older one: install it and set PYTHON=/path/to/python3"
    else
        stop "Python 3.11 or newer with the venv module is needed: install it (Debian: sudo apt-get install python3-venv) and run make again"
    fi
fi

want=$(cat requirements/dev.txt pyproject.toml scripts/bootstrap.sh | cksum)
if [ -x .venv/bin/python ] && [ "$(cat .venv/.bootstrap 2>/dev/null)" = "$want" ]; then
    exit 0
fi
start=$(date +%s)
cache="${XDG_CACHE_HOME:-$HOME/.cache}/pulsar-operator"
mkdir -p "$cache"
UV=$(command -v uv || true)
if [ -z "$UV" ]; then
    [ -x "$cache/uv/bin/uv" ] || { "$PY" -m venv "$cache/uv" && "$cache/uv/bin/pip" install -q uv; }
    UV="$cache/uv/bin/uv"
fi
rm -f .venv/.bootstrap
[ -x .venv/bin/python ] || "$UV" venv -q --no-python-downloads --python "$PY" .venv
VIRTUAL_ENV="$PWD/.venv" "$UV" pip sync -q --require-hashes requirements/dev.txt
VIRTUAL_ENV="$PWD/.venv" "$UV" pip install -q --no-deps --editable .
printf '%s' "$want" > .venv/.bootstrap
say "python environment ready in .venv ($("$PY" -V), $(( $(date +%s) - start )) s)"
