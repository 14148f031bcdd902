"""A ZooKeeper server starts once its own name resolves to an address of its pod (ZOOKEEPER-4708)."""

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import count, repeat
from pathlib import Path

import pytest
from pulsar_start.errors import StartError
from pulsar_start.own_name import await_own_name, is_local, own_hosts, resolved

ROOT = Path(__file__).parents[3]
HOST = "zoo-0.zoo-headless.ns.svc.cluster.local"
OWN = {"10.0.0.7", "fd00::7"}
UNKNOWN = OSError("Name or service not known")
Answer = set[str] | OSError


def wait(answers: Iterator[Answer], hosts: list[str] | None = None) -> tuple[list[str], int]:
    """What the wait says, and how many seconds it took; a look costs nothing, a pause two seconds."""
    seconds = [0.0]
    said: list[str] = []

    def resolve(host: str) -> set[str]:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def pause(duration: float) -> None:
        seconds[0] += duration

    await_own_name(
        [HOST] if hosts is None else hosts, said.append, resolve, OWN.__contains__, lambda: seconds[0], pause
    )
    return said, int(seconds[0])


@pytest.mark.parametrize(
    "answer",
    [
        {"10.0.0.7"},
        {"fd00::7"},
        {"FD00:0:0::0007"},
        {"::ffff:10.0.0.7"},
        {"10.0.0.7", "fd00::7"},
    ],
)
def test_a_name_that_resolves_to_the_pod_is_not_waited_for(answer: set[str]) -> None:
    assert wait(repeat(answer)) == ([], 0)


def test_a_name_that_resolves_late_is_waited_for_and_must_stay() -> None:
    """Two servers of the cluster's DNS take turns: one knows the pod, the other still caches that it does not exist."""
    answers: list[Answer] = [UNKNOWN, {"10.0.0.7"}, UNKNOWN, *[{"10.0.0.7"}] * 6]
    said, seconds = wait(iter(answers))
    assert said == [
        f"waits until its own name resolves to an address of this pod: {HOST} does not resolve ({UNKNOWN})",
        f"its own name resolves to an address of this pod: {HOST}",
    ]
    assert seconds == 16


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (UNKNOWN, "does not resolve"),
        (set(), "has no address"),
        ({"10.0.0.9"}, "resolves to 10.0.0.9, which is no address of this pod"),
        ({"10.0.0.7", "10.0.0.9"}, "resolves to 10.0.0.9, which is no address of this pod"),
        ({"10.0.0.7", "fd00::9"}, "resolves to fd00::9, which is no address of this pod"),
    ],
)
def test_after_a_minute_the_start_fails_and_says_why(answer: Answer, problem: str) -> None:
    with pytest.raises(StartError, match=f"after 60 s .*{problem}.*may be elected and never commit"):
        wait(repeat(answer))


def test_the_address_of_the_former_pod_is_waited_out() -> None:
    answers: list[Answer] = [{"10.0.0.9"}, {"10.0.0.9", "10.0.0.7"}, *[{"10.0.0.7"}] * 6]
    said, seconds = wait(iter(answers))
    assert [line.partition(": ")[2] for line in said] == [
        f"{HOST} resolves to 10.0.0.9, which is no address of this pod",
        HOST,
    ]
    assert seconds == 14


def test_a_name_that_resolves_shortly_before_the_minute_is_over_may_settle() -> None:
    answers: list[Answer] = [*[UNKNOWN] * 29, *[{"10.0.0.7"}] * 9]
    assert wait(iter(answers))[1] == 68


def test_every_address_of_the_server_is_waited_for() -> None:
    other = "zoo-0.other.local"
    answers: dict[str, Iterator[Answer]] = {
        HOST: repeat({"10.0.0.7"}),
        other: iter([UNKNOWN, *[{"fd00::7"}] * 6]),
    }
    seconds = count(step=2)
    said: list[str] = []

    def resolve(host: str) -> set[str]:
        answer = next(answers[host])
        if isinstance(answer, OSError):
            raise answer
        return answer

    await_own_name([HOST, other], said.append, resolve, OWN.__contains__, lambda: next(seconds), lambda _: None)
    assert said[-1] == f"its own name resolves to an address of this pod: {HOST}, {other}"


@pytest.mark.parametrize(
    ("line", "hosts"),
    [
        (f"server.1={HOST}:2888:3888:participant;0.0.0.0:2181", [HOST]),
        (f"server.1={HOST}:2888:3888", [HOST]),
        ("server.1=[fd00::7]:2888:3888:participant;[::]:2181", ["fd00::7"]),
        ("server.1=10.0.0.7:2888:3888|[fd00::7]:2888:3888;2181", ["10.0.0.7", "fd00::7"]),
        (f"server.11={HOST}:2888:3888:participant", []),
        ("", []),
    ],
)
def test_the_own_name_is_that_of_the_server_line(line: str, hosts: list[str]) -> None:
    """A peer that is absent for good has a line too, and nobody waits for it."""
    membership = f"server.2=absent.local:2888:3888:participant;0.0.0.0:2181\n{line}\nversion=100000003\n"
    assert own_hosts(membership, 1) == hosts


def test_a_server_that_is_no_member_has_no_name_to_wait_for() -> None:
    assert wait(iter(()), hosts=[]) == ([], 0)


def test_the_kernel_knows_the_addresses_of_this_machine() -> None:
    assert is_local("127.0.0.1")
    assert not is_local("192.0.2.1"), "documentation addresses are nobody's"
    assert not is_local("2001:db8::1")
    assert not is_local("no-address.invalid")
    assert resolved("127.0.0.1") == {"127.0.0.1"}


def test_java_does_not_start_before_the_name_resolves(tmp_path: Path) -> None:
    """The process as the kubelet starts it: it waits, says what for, and ends at once when it is told to."""
    marker = tmp_path / "started"
    program = tmp_path / "jdk/bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    environ = {
        "PULSAR_HOME": str(tmp_path),
        "PULSAR_OPERATOR_CONFIG": str(tmp_path / "config"),
        "JAVA_HOME": str(tmp_path / "jdk"),
        "PATH": os.environ["PATH"],
        "POD_NAME": "zoo-0",
        "ZOO_STS_NAME": "zoo",
        "ZOO_DOMAIN": "nowhere.invalid",
        "ZOO_REPLICAS": "3",
    }
    command = [sys.executable, str(ROOT / "broker_image" / "pulsar_start"), "zookeeper"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert "zoo-0.nowhere.invalid does not resolve" in next(line for line in lines if "its own name" in line)
        process.terminate()
    assert process.returncode == 143
    assert not marker.exists()
