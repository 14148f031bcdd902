#!/bin/sh
# Lets git check the subject of each commit (.githooks/commit-msg), in this checkout and its worktrees. Does nothing
# outside of a checkout, and leaves hooks that are set up already.
set -u
cd "$(dirname "$0")/.." || exit 0
command -v git >/dev/null 2>&1 || exit 0
top=$(git rev-parse --show-toplevel 2>/dev/null) || exit 0
[ "$top" -ef . ] || exit 0 # an unpacked archive inside of another checkout

path=$(git config core.hooksPath) || path=""
[ "$path" != .githooks ] || exit 0
others="$path"
if [ -z "$others" ]; then
    for hook in "$(git rev-parse --git-common-dir)"/hooks/*; do
        case $hook in *.sample | *'*') ;; *) others="$hook" ;; esac
    done
fi
if [ -n "$others" ]; then
    echo "hooks of git are set up already ($others): call .githooks/commit-msg from there to check subjects of commits" >&2
    exit 0
fi
# A relative path is looked up in each worktree: one without the folder has no hooks.
git config core.hooksPath .githooks || true
