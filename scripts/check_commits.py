"""Subjects of commits: ``python scripts/check_commits.py [--message FILE]``; the rule is in CONTRIBUTING.md.

Without an option, those since the base of commits.toml, run by scripts/lint.sh. With ``--message``, that of one commit,
run by .githooks/commit-msg.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_CHARACTERS = 72
SUBJECT = re.compile(r"(?P<areas>[a-z][a-z0-9_./-]*(?:, [a-z][a-z0-9_./-]*)*): (?P<text>\S.*)")
MADE_BY_GIT = ("Merge ", 'Revert "')
UNFINISHED = ("fixup! ", "squash! ", "amend! ")
IMPERATIVES = re.compile("alias|bias|bring|embed|exceed|feed|focus|need|ping|proceed|ring|seed|shed|speed")
"""Imperatives that end like other forms."""


class NotCheckedError(Exception):
    """The commits cannot be read: no git, no checkout, or not enough of the history."""


def problems(subject: str) -> list[str]:
    """What is wrong with a subject, one sentence each."""
    if subject.startswith(MADE_BY_GIT):
        return []
    found = []
    if len(subject) > MAX_CHARACTERS:
        found.append(f"It has {len(subject)} characters; {MAX_CHARACTERS} are allowed.")
    match = SUBJECT.fullmatch(subject)
    if match is None:
        return [*found, "It does not have the form `area: imperative, what changes`, in lower case before the colon."]
    first = re.split(r"[\s,]", match["text"])[0]
    if not first[0].islower():
        found.append(f"The text after the colon starts with {first!r}; start it with a verb in lower case.")
    elif not IMPERATIVES.fullmatch(first) and re.search(r"(?:ed|ing|[^s]s)$", first):
        found.append(f"The text after the colon starts with {first!r}; start it with an imperative such as `fix`.")
    if subject.endswith("."):
        found.append("It ends with a period.")
    return found


def message_problems(message: str) -> list[str]:
    """What is wrong with the subject of a message that git hands to the hook; comments and an empty one are none."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = next((line.strip() for line in lines if line.strip()), "")
    for prefix in UNFINISHED:
        subject = subject.removeprefix(prefix)
    return problems(subject) if subject else []


def history_problems(root: Path) -> list[str]:
    """What is wrong with the subjects since the recorded base, one line each. Raises NotCheckedError."""
    recorded = tomllib.loads((root / "scripts" / "commits.toml").read_text(encoding="utf-8"))
    base, allowed = recorded["base"], {each["subject"] for each in recorded["allowed"]}
    if Path(_git(root, "rev-parse", "--show-toplevel")).resolve() != root.resolve():
        raise NotCheckedError("this folder is not the root of a git checkout")
    try:
        _git(root, "merge-base", "--is-ancestor", base, "HEAD")
    except NotCheckedError:
        raise NotCheckedError(f"the history does not go back to {base[:12]}, the base in commits.toml") from None
    out = []
    for line in _git(root, "log", "--format=%h %s", f"{base}..HEAD").splitlines():
        commit, _, subject = line.partition(" ")
        if subject not in allowed:
            out += [f"{commit} {subject}: {problem}" for problem in problems(subject)]
    return out


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise NotCheckedError("git is not installed") from None
    except subprocess.CalledProcessError as error:
        raise NotCheckedError(error.stderr.strip().splitlines()[0] if error.stderr.strip() else "git failed") from None
    return done.stdout.strip()


def main(argv: list[str] | None = None) -> int:
    """1 and a line for each problem; 0, with a note, where the history cannot be read."""
    parser = argparse.ArgumentParser(description="Check the subjects of commits.")
    parser.add_argument("--message", type=Path, help="file with the message of one commit, as git hands it to a hook")
    arguments = parser.parse_args(argv)
    if arguments.message:
        found = message_problems(arguments.message.read_text(encoding="utf-8", errors="replace"))
    else:
        try:
            found = history_problems(ROOT)
        except NotCheckedError as error:
            print(f"note: subjects of commits were not checked: {error}")
            return 0
    if found:
        print("\n".join(found), file=sys.stderr)
        print("A subject reads `area: imperative, what changes`; see CONTRIBUTING.md.", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
