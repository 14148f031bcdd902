"""scripts/check_commits.py and the hook that make setup installs: subjects of commits, in real repositories of git."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.documents import ROOT
from tests.support.scripts import script

checker = script("check_commits")
GOOD = "rollout: count missing pods against the progress deadline"
FORM = "does not have the form"


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        pytest.param(GOOD, None, id="good"),
        pytest.param("tests, docs: follow the repairs of balancing", None, id="two-areas"),
        pytest.param("api/v1alpha1: name the default", None, id="area-with-a-path"),
        pytest.param("export: fix the redaction of JDBC URLs", None, id="fix-is-a-good-word"),
        pytest.param("autoscaling: process figures of silent brokers", None, id="verb-that-ends-in-ss"),
        pytest.param("planner: bring bundles back", None, id="verb-that-ends-in-ing"),
        pytest.param("planner: shed load of hot brokers", None, id="verb-that-ends-in-ed"),
        pytest.param("Merge branch 'main' into topic", None, id="merge"),
        pytest.param('Revert "planner: bring bundles back"', None, id="revert"),
        pytest.param("a: " + "x" * 69, None, id="72-characters"),
        pytest.param("a: " + "x" * 70, "has 73 characters; 72 are allowed", id="73-characters"),
        pytest.param("Count missing pods", FORM, id="no-area"),
        pytest.param("Rollout: count missing pods", FORM, id="area-in-upper-case"),
        pytest.param("rollout:count missing pods", FORM, id="no-space"),
        pytest.param("rollout: ", FORM, id="no-text"),
        pytest.param("rollout: Count missing pods", "starts with 'Count'", id="upper-case"),
        pytest.param("rollout: counts missing pods", "starts with 'counts'", id="third-person"),
        pytest.param("rollout: counted missing pods", "starts with 'counted'", id="past"),
        pytest.param("rollout: counting missing pods", "starts with 'counting'", id="participle"),
        pytest.param("docs: figures of a million topics", "starts with 'figures'", id="noun"),
        pytest.param("rollout: count missing pods.", "ends with a period", id="period"),
    ],
)
def test_a_subject(subject: str, problem: str | None) -> None:
    found = checker.problems(subject)
    assert [each for each in found if problem is None or problem not in each] == []
    assert bool(found) == (problem is not None)


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        pytest.param(f"{GOOD}\n\nWhy it does.\n", False, id="with-a-body"),
        pytest.param(f"# comment\n\n{GOOD}\n", False, id="after-comments"),
        pytest.param("# nothing but comments\n", False, id="empty-so-git-refuses-it"),
        pytest.param(f"fixup! {GOOD}\n", False, id="fixup-of-a-good-one"),
        pytest.param("fixup! Wip\n", True, id="fixup-of-a-bad-one"),
        pytest.param("Wip\n", True, id="bad"),
    ],
)
def test_a_message_as_the_hook_gets_it(message: str, wrong: bool) -> None:
    assert bool(checker.message_problems(message)) == wrong


def git(folder: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """git without the settings of the machine, nor those of a hook that runs these tests."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    author = {f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, env=clean | author | settings, capture_output=True, text=True, check=check)


@pytest.fixture
def commit() -> Callable[..., str]:
    """Makes an empty commit, and returns its hash."""

    def made(folder: Path, subject: str, *options: str) -> str:
        git(folder, "commit", "--allow-empty", "--quiet", *options, "-m", subject)
        return git(folder, "rev-parse", "HEAD").stdout.strip()

    return made


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A checkout with the scripts and the hook."""
    folder = tmp_path / "clone"
    (folder / "scripts").mkdir(parents=True)
    for name in ("check_commits.py", "install_hooks.sh"):
        shutil.copy(ROOT / "scripts" / name, folder / "scripts" / name)
    shutil.copytree(ROOT / ".githooks", folder / ".githooks")
    git(tmp_path, "init", "--quiet", str(folder))
    git(folder, "add", "--all")
    return folder


def record(folder: Path, base: str, allowed: str = "[]") -> None:
    (folder / "scripts" / "commits.toml").write_text(f'base = "{base}"\nallowed = {allowed}\n')


def test_the_history_is_checked_from_the_base_on(clone: Path, commit: Callable[..., str]) -> None:
    commit(clone, "Before the base")
    base = commit(clone, "The base")
    commit(clone, GOOD)
    wrong = commit(clone, "After the base")
    record(clone, base)
    (found,) = checker.history_problems(clone)
    assert found.startswith(f"{wrong[:7]}") and "After the base: " in found and FORM in found
    record(clone, base, '[{subject = "After the base", reason = "it was published"}]')
    assert checker.history_problems(clone) == []


def test_an_unfinished_commit_is_found_in_the_history(clone: Path, commit: Callable[..., str]) -> None:
    record(clone, commit(clone, "The base"))
    commit(clone, f"fixup! {GOOD}")
    assert len(checker.history_problems(clone)) == 1


def test_a_shallow_clone_is_not_checked(clone: Path, tmp_path: Path, commit: Callable[..., str]) -> None:
    record(clone, commit(clone, "The base"))
    commit(clone, GOOD)
    git(clone, "add", "--all")
    commit(clone, "Wrong")
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{clone}", "shallow")
    with pytest.raises(checker.NotCheckedError, match="the history does not go back to"):
        checker.history_problems(tmp_path / "shallow")


def test_without_a_checkout_nothing_is_checked(clone: Path, commit: Callable[..., str]) -> None:
    record(clone, commit(clone, "The base"))
    shutil.rmtree(clone / ".git")
    with pytest.raises(checker.NotCheckedError):
        checker.history_problems(clone)


def test_an_archive_inside_of_another_checkout_is_not_checked(clone: Path, commit: Callable[..., str]) -> None:
    inner = clone / "unpacked"
    shutil.copytree(clone / "scripts", inner / "scripts")
    record(inner, commit(clone, "The base"))
    with pytest.raises(checker.NotCheckedError, match="not the root of a git checkout"):
        checker.history_problems(inner)


def test_without_git_it_says_that_it_did_not_look(clone: Path, commit: Callable[..., str]) -> None:
    record(clone, commit(clone, "The base"))
    program = [sys.executable, str(clone / "scripts" / "check_commits.py")]
    done = subprocess.run(program, env={"PATH": ""}, capture_output=True, text=True, check=True)
    assert done.stdout == "note: subjects of commits were not checked: git is not installed\n"


def install(folder: Path) -> str:
    """Runs the script; returns the setting of git that it made, empty where there is none."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["sh", str(folder / "scripts" / "install_hooks.sh")], env=clean | settings, check=True)
    return git(folder, "config", "core.hooksPath", check=False).stdout.strip()


def test_the_hook_refuses_a_bad_subject_in_a_clone_and_its_worktrees(
    clone: Path, tmp_path: Path, commit: Callable[..., str]
) -> None:
    commit(clone, "The base")
    assert install(clone) == ".githooks"
    assert install(clone) == ".githooks", "again is no problem"
    git(clone, "worktree", "add", "--quiet", str(tmp_path / "worktree"))
    for folder in (clone, tmp_path / "worktree"):
        refused = git(folder, "commit", "--allow-empty", "-m", "Wrong", check=False)
        assert refused.returncode == 1 and FORM in refused.stderr
        commit(folder, GOOD)
        commit(folder, "Wrong", "--no-verify")


def test_hooks_that_are_set_up_are_left(clone: Path, tmp_path: Path, commit: Callable[..., str]) -> None:
    git(clone, "config", "core.hooksPath", "/somewhere")
    assert install(clone) == "/somewhere"
    git(clone, "config", "--unset", "core.hooksPath")
    (clone / ".git" / "hooks").mkdir(exist_ok=True)
    (clone / ".git" / "hooks" / "pre-push").write_text("#!/bin/sh\n")
    assert install(clone) == ""


def test_outside_of_a_checkout_nothing_is_installed(clone: Path) -> None:
    inner = clone / "unpacked"
    shutil.copytree(clone / "scripts", inner / "scripts")
    assert install(inner) == ""
    shutil.rmtree(clone / ".git")
    assert install(clone) == ""


def test_the_committed_base_is_a_whole_hash_and_the_allowed_have_reasons() -> None:
    import tomllib

    recorded = tomllib.loads((ROOT / "scripts" / "commits.toml").read_text())
    assert len(recorded["base"]) == 40
    assert all(each["reason"] for each in recorded["allowed"])
