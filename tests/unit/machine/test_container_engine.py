"""What a container engine started here needs to be told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.kind.engine import SHIM, daemon_flags, lacks_capability

STATUS = "Name:\tpython3\nCapEff:\t000001ffffffffff\nCapBnd:\t{}\nSeccomp:\t0\n"


@pytest.mark.parametrize(
    ("mask", "lacks"),
    [("000001ffffffffff", False), ("000001fffeffffff", True), ("0000000000000000", True), ("0000000001000000", False)],
)
def test_the_bounding_set_is_read_for_bit_24(mask: str, lacks: bool) -> None:
    assert lacks_capability(STATUS.format(mask)) is lacks


def test_a_text_without_a_bounding_set_lacks_nothing() -> None:
    assert lacks_capability("") is False


def test_flags_for_a_machine_that_needs_both() -> None:
    flags = daemon_flags({}, True, Path("/c/shim"), True)
    assert flags == [
        *("--add-runtime", "relaxed=/c/shim", "--default-runtime", "relaxed"),
        *("--default-cgroupns-mode", "private"),
    ]


def test_no_flags_where_nothing_is_needed() -> None:
    assert daemon_flags({}, False, Path("/c/shim"), False) == []


@pytest.mark.parametrize("key", ["runtimes", "default-runtime"])
def test_what_the_configuration_file_sets_is_not_set_again(key: str) -> None:
    assert "--add-runtime" not in daemon_flags({key: {}}, True, Path("/c/shim"), False)
    assert daemon_flags({"default-cgroupns-mode": "host"}, False, Path("/c/shim"), True) == []


@pytest.fixture
def fake_runc(tmp_path: Path) -> dict[str, str]:
    runc = tmp_path / "bin" / "runc"
    runc.parent.mkdir()
    runc.write_text('#!/bin/sh\necho "runc $*"\n')
    runc.chmod(0o755)
    return {**os.environ, "PATH": f"{runc.parent}{os.pathsep}{os.environ['PATH']}"}


PROCESS = {
    "capabilities": {"bounding": ["CAP_CHOWN", "CAP_SYS_RESOURCE"], "effective": ["CAP_SYS_RESOURCE"]},
    "oomScoreAdj": -500,
    "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1, "soft": 1}],
    "args": ["sh"],
}
RELAXED = {"capabilities": {"bounding": ["CAP_CHOWN"], "effective": []}, "oomScoreAdj": 0, "args": ["sh"]}


def test_the_shim_relaxes_a_new_container_and_hands_over(tmp_path: Path, fake_runc: dict[str, str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"ociVersion": "1", "process": PROCESS}))
    command = [sys.executable, SHIM, "--root", "/r", "create", "--bundle", str(tmp_path), "id"]
    done = subprocess.run(command, env=fake_runc, capture_output=True, text=True, check=True)
    assert done.stdout == f"runc --root /r create --bundle {tmp_path} id\n"
    assert json.loads((tmp_path / "config.json").read_text()) == {"ociVersion": "1", "process": RELAXED}


def test_the_shim_relaxes_a_process_that_joins(tmp_path: Path, fake_runc: dict[str, str]) -> None:
    file = tmp_path / "process.json"
    file.write_text(json.dumps(PROCESS))
    command = [sys.executable, SHIM, "exec", f"--process={file}", "id"]
    subprocess.run(command, env=fake_runc, capture_output=True, check=True)
    assert json.loads(file.read_text()) == RELAXED


def test_the_shim_leaves_other_commands_alone(fake_runc: dict[str, str]) -> None:
    command = [sys.executable, SHIM, "state", "id"]
    done = subprocess.run(command, env=fake_runc, capture_output=True, text=True, check=True)
    assert done.stdout == "runc state id\n"
