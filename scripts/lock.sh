#!/bin/sh
# Resolves pyproject.toml anew and writes the hashed requirement files every install uses. Run after changing dependencies.
# The lock file itself stays out of the repository: it would record download addresses of whoever ran this.
set -eu
cd "$(dirname "$0")/.."
cache="${XDG_CACHE_HOME:-$HOME/.cache}/pulsar-operator"
UV=$(command -v uv || echo "$cache/uv/bin/uv")
"$UV" lock
export_to() { out=$1; shift; "$UV" export -q --no-emit-project --no-annotate --no-header --format requirements-txt "$@" -o "$out" >/dev/null; }
export_to requirements/runtime.txt --no-dev
export_to requirements/dev.txt --all-groups
# What the conformance image holds besides the suite itself.
export_to requirements/conformance.txt --only-group conformance
# What the image of the collector and the Spark job holds.
export_to requirements/sizing.txt --only-group sizing
# What makes wheels of packages that have none (pyspark), where an image is built without this machine's packages.
{
    echo "# What makes wheels of the packages that are published as source alone."
    echo setuptools | "$UV" pip compile -q --generate-hashes --no-header --no-annotate --python-version 3.11 --universal -
} > requirements/build.txt
