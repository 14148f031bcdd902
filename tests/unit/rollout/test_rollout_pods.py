"""Facts and problems read from raw pods."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Reason
from pulsar_operator.domain.dataplane.objects.pods import observe_component, pod_facts, pod_problem
from tests.support.cluster.stateful_sets import pod, stateful_set

Json = dict[str, Any]
STARTING = {"ready": False, "was_ready": False}

PROBLEMS: list[tuple[dict[str, Any], Reason, tuple[str, ...]]] = [
    (
        {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "pulsar:1"'}},
        Reason.IMAGE_PULL_FAILED,
        ("my-broker-0", "pulsar:1", "ImagePullBackOff", "Back-off"),
    ),
    ({"waiting": {"reason": "InvalidImageName"}}, Reason.IMAGE_PULL_FAILED, ("pulsar:1", "InvalidImageName")),
    (
        {
            "waiting": {"reason": "CrashLoopBackOff"},
            "ended": {"exitCode": 1, "reason": "Error", "message": "boot\njava.lang.X: no store\n\tat a.b(C.java)\n"},
            "restarts": 4,
        },
        Reason.CRASH_LOOPING,
        ("exit code 1", "restarted 4 times", "java.lang.X: no store"),
    ),
    (
        {"ended": {"exitCode": 137, "reason": "OOMKilled"}, "restarts": 3},
        Reason.CRASH_LOOPING,
        ("OOMKilled", "memory limit"),
    ),
    (
        {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "my-super" not found'}},
        Reason.NOT_READY,
        ("my-super",),
    ),
    ({"unschedulable": "0/3 nodes are available: 3 Insufficient memory."}, Reason.UNSCHEDULABLE, ("Insufficient",)),
    (
        {"unschedulable": "pod has unbound immediate PersistentVolumeClaims"},
        Reason.VOLUME_PENDING,
        ("PersistentVolumeClaims",),
    ),
]


@pytest.mark.parametrize(("state", "reason", "words"), PROBLEMS)
def test_problems_are_told_in_words(state: dict[str, Any], reason: Reason, words: tuple[str, ...]) -> None:
    problem = pod_problem(pod("my-broker-0", **STARTING, **state))
    assert problem is not None
    assert problem.reason is reason
    for word in words:
        assert word in problem.message
    assert "\n" not in problem.message


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"message": "The node was low on memory", "reason": "Evicted"}, "The node was low on memory"),
        ({"reason": "Evicted"}, "Evicted"),
        ({}, "no reason was given"),
    ],
)
def test_a_pod_that_failed_is_told_with_what_is_known(told: Json, words: str) -> None:
    failed = pod("my-broker-0", **STARTING)
    failed["status"] = {"phase": "Failed", **told}
    problem = pod_problem(failed)
    assert problem is not None and problem.reason is Reason.NOT_READY
    assert problem.message == f"Pod my-broker-0 has failed: {words}"


@pytest.mark.parametrize(
    "state", [{}, {"waiting": {"reason": "ContainerCreating"}}, {"waiting": {"reason": "PodInitializing"}}]
)
def test_starting_is_no_problem(state: dict[str, Any]) -> None:
    assert pod_problem(pod("my-broker-0", **STARTING, **state)) is None


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"terminated": {"exitCode": 0, "reason": "Completed"}}, None),
        ({"running": {"startedAt": "2026-01-01T00:00:10Z"}}, None),
        ({"waiting": {"reason": "ImagePullBackOff"}}, Reason.IMAGE_PULL_FAILED),
        ({"terminated": {"exitCode": 1, "reason": "Error"}}, Reason.CRASH_LOOPING),
    ],
)
def test_init_containers_are_told_unless_they_are_done(state: Json, reason: Reason | None) -> None:
    waiting = pod("my-broker-0", **STARTING, waiting={"reason": "PodInitializing"})
    waiting["status"]["initContainerStatuses"] = [{"name": "fetch", "state": state}]
    problem = pod_problem(waiting)
    assert (problem.reason if problem else None) is reason


def test_long_messages_are_cut() -> None:
    problem = pod_problem(pod("p-0", **STARTING, unschedulable="x" * 5000))
    assert problem is not None
    assert len(problem.message) < 400


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({}, True),
        ({"ready": False, "was_ready": True}, True),
        ({"ready": False, "was_ready": False}, False),
        ({"ready": False, "was_ready": True, "waiting": {"reason": "CrashLoopBackOff"}}, False),
        ({"ready": False, "was_ready": True, "unschedulable": "no"}, False),
    ],
)
def test_whether_a_pod_served_in_this_container(state: dict[str, Any], expected: bool) -> None:
    assert pod_facts(pod("my-broker-0", **state)).serving_before is expected


def containers(*started: str | None, ready: str = "False", since: str | None = "2026-01-01T00:05:00Z") -> Json:
    """A pod whose containers run since these times (None: one that does not run)."""
    made = pod("my-broker-0")
    states = [
        {"running": {"startedAt": each}} if each else {"waiting": {"reason": "PodInitializing"}} for each in started
    ]
    condition = {"type": "Ready", "status": ready, **({"lastTransitionTime": since} if since else {})}
    made["status"] = {"conditions": [condition], "containerStatuses": [{"name": "c", "state": s} for s in states]}
    return made


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (containers("2026-01-01T00:04:59Z"), True),
        # In the second in which it was admitted: that is when the kubelet set it.
        (containers("2026-01-01T00:05:00Z"), False),
        (containers("2026-01-01T00:05:01Z"), False),
        # A container that started again after that has not been ready; the other one alone makes no ready pod.
        (containers("2026-01-01T00:00:10Z", "2026-01-01T00:06:00Z"), False),
        (containers("2026-01-01T00:06:00Z", "2026-01-01T00:00:10Z"), False),
        (containers("2026-01-01T00:00:10Z", "2026-01-01T00:04:00Z"), True),
        (containers("2026-01-01T00:04:00Z", None), True),
        (containers(None), False),
        (containers(), False),
        (containers("2026-01-01T00:04:00Z", since=None), False),
        (containers("2026-01-01T00:04:00Z", ready="True", since=None), True),
        (containers(ready="True"), True),
    ],
)
def test_a_pod_was_ready_when_it_stopped_being_so_after_its_last_container_started(state: Json, expected: bool) -> None:
    assert pod_facts(state).serving_before is expected


def test_counts() -> None:
    pods = [
        pod("my-broker-0", revision="r2"),
        pod("my-broker-1", revision="r1"),
        pod("my-broker-2", revision="r2", ready=False),
        pod("my-broker-3", revision="r2"),
        pod("my-bookie-0", revision="r2"),
    ]
    facts = observe_component(stateful_set(replicas=3, revision="r2"), pods)
    assert (facts.desired, facts.ready, facts.updated, facts.revision) == (3, 2, 2, "r2")
    assert facts.all_ready is False
    assert facts.up_to_date is False
    assert facts.summary("brokers") == (Reason.NOT_READY, "2 of 3 brokers are ready")


def test_a_terminating_pod_is_neither_ready_nor_updated() -> None:
    facts = observe_component(stateful_set(replicas=1), [pod("my-broker-0", terminating=True)])
    assert (facts.ready, facts.updated) == (0, 0)


def test_the_first_problem_speaks_for_all() -> None:
    bad = {"waiting": {"reason": "ErrImagePull"}, **STARTING}
    facts = observe_component(stateful_set(), [pod(f"my-broker-{i}", **bad) for i in range(3)])
    reason, text = facts.summary("brokers")
    assert reason is Reason.IMAGE_PULL_FAILED
    assert text.startswith("0 of 3 brokers are ready. Pod my-broker-0 cannot pull")
    assert text.endswith("(and 2 more)")


def test_what_is_not_known_is_not_zero() -> None:
    unread = observe_component(stateful_set(), None)
    assert (unread.desired, unread.ready, unread.updated) == (3, None, None)
    assert unread.all_ready is None
    assert unread.summary("brokers")[0] is Reason.UNKNOWN
    unseen = observe_component(stateful_set(generation=2), [pod(f"my-broker-{i}") for i in range(3)])
    assert unseen.ready == 3
    assert unseen.updated is None
    assert unseen.up_to_date is None
    absent = observe_component(None, [])
    assert not absent.exists
    assert absent.summary("brokers")[0] is Reason.PENDING


def crashed(line: str, **env: str) -> str:
    """What is told of a pod whose container ended with a line."""
    ended = {"exitCode": 1, "reason": "Error", "message": f"{line}\n\tat a.b(C.java)"}
    found = pod("east-broker-0", **STARTING, restarts=3, waiting={"reason": "CrashLoopBackOff"}, ended=ended)
    found["spec"]["containers"][0]["env"] = [{"name": name, "value": value} for name, value in env.items()]
    problem = pod_problem(found)
    assert problem is not None
    return problem.message.partition(" The last line of its log is: ")[2]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('Malformed URL "https://user:s3cret@sso.example.com:x/a"', 'Malformed URL "https://...@sso.example.com:x/a"'),
        ("no host pulsar://u:s3@cret@host:1/x", "no host pulsar://...@host:1/x"),
        ("failed to set field brokerClientAuthParams, value token:s3cret", None),
        ("brokerClientAuthenticationParameters=user:s3cret and more", None),
        ("tlsTrustStorePassword=s3cret is wrong", "tlsTrustStorePassword=*** is wrong"),
        ('{"password" : "my s3cret", "host": "h:1"}', '{"password" : ***, "host": "h:1"}'),
        ('cannot parse {\\"token\\":\\"s3cret\\"}', None),
        ("clientSecret => 's3cret x' refused", "clientSecret => *** refused"),
        ("saslJaasConfig=org.x.PlainLoginModule required username=a password=s3cret;", "saslJaasConfig=***"),
        ("sent Authorization: Basic s3cret== to h", "sent Authorization: ***"),
        ("HTTP 401 with bearer s3cret.x-y at h", "HTTP 401 with bearer *** at h"),
        ("unknown option --auth-token s3cret --host h", "unknown option --auth-token *** --host h"),
        ("-Dstore.key=s3cret -Xmx1g", "-Dstore.key=*** -Xmx1g"),
        ("token eyJhbGci.s3cret.sig expired", "token *** expired"),
        ('password="s3cret ' + "x" * 400, "password=***"),
    ],
)
def test_a_crash_is_told_without_what_may_be_secret(line: str, told: str | None) -> None:
    found = crashed(line)
    assert "s3cret" not in found and "cret@" not in found
    assert found != ""
    if told is not None:
        assert found == told


@pytest.mark.parametrize(
    "line",
    [
        "java.security.KeyStoreException: not found in /pulsar/certs",
        "org.apache.X$BadTokenException: it is late",
        "KeeperErrorCode = NoNode for /ledgers/INSTANCEID",
        "Basic authentication failed, no key given",
        "UnknownHostException: east-zookeeper.pulsar.svc.cluster.local: Name or service not known",
        'secret "my-super" not found',
    ],
)
def test_what_says_why_it_crashed_is_left(line: str) -> None:
    hosts = {"ZOO_DOMAIN": "pulsar.svc.cluster.local", "PULSAR_CONF_advertisedAddress": "east-zookeeper"}
    assert crashed(line, **hosts) == line


def test_values_of_environment_variables_are_not_told() -> None:
    line = "cannot log in as operator with hunter2hunter2 at hunter2, level debug"
    values = {"LOGIN": "hunter2hunter2", "OTHER": "hunter2", "LEVEL": "debug", "EMPTY": ""}
    assert crashed(line, **values) == "cannot log in as operator with *** at ***, level debug"


@pytest.mark.parametrize("reason", ["CreateContainerError", "ErrImagePull"])
def test_a_container_that_cannot_be_made_tells_no_secret_either(reason: str) -> None:
    problem = pod_problem(pod("p-0", **STARTING, waiting={"reason": reason, "message": "https://u:s3cret@h is bad"}))
    assert problem is not None and "https://...@h is bad" in problem.message


def test_a_pod_that_failed_tells_no_secret_either() -> None:
    failed = pod("p-0", **STARTING)
    failed["status"].update(phase="Failed", message="arguments: --password s3cret")
    problem = pod_problem(failed)
    assert problem is not None and problem.message.endswith("--password ***")


SECRET: Json = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "shipper", "key": "token"}}}
LAST = "GET https://ingest.example.com/v1/hunter2hunter2/bulk: 401\nusing AKIA wJalrXUtnFEMI for bucket logs"
ENDED: Json = {"exitCode": 1, "reason": "Error", "message": LAST}


def test_the_last_line_of_a_users_own_container_is_left_in_its_log() -> None:
    """It may be a value from a Secret, which the operator cannot know."""
    found = pod("east-broker-0", **STARTING)
    found["spec"]["containers"].append({"name": "shipper", "image": "s:1", "env": [SECRET]})
    status = {"name": "shipper", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    found["status"]["containerStatuses"].append({**status, "lastState": {"terminated": ENDED}})
    problem = pod_problem(found)
    assert problem is not None and problem.reason is Reason.CRASH_LOOPING
    assert problem.message == (
        'The container "shipper" of pod east-broker-0 keeps ending (Error, exit code 1) and was restarted 3 times. '
        "To see the cause, run: kubectl logs east-broker-0 -c shipper"
    )


@pytest.mark.parametrize(
    ("waiting", "words"),
    [
        ({"reason": "ErrImagePull"}, 'cannot pull image "f:1" of container "fetch" (ErrImagePull)'),
        (
            {"reason": "CreateContainerError", "message": "no"},
            'container "fetch" of pod east-broker-0 cannot be created',
        ),
    ],
)
def test_a_container_that_is_not_the_main_one_is_named(waiting: Json, words: str) -> None:
    found = pod("east-broker-0", **STARTING, waiting={"reason": "PodInitializing"})
    found["spec"]["initContainers"] = [{"name": "fetch", "image": "f:1"}]
    found["status"]["initContainerStatuses"] = [{"name": "fetch", "state": {"waiting": waiting}}]
    problem = pod_problem(found)
    assert problem is not None and words in problem.message


@pytest.mark.parametrize("given", [{"env": [SECRET]}, {"envFrom": [{"secretRef": {"name": "s3"}}]}])
def test_a_main_container_with_secrets_of_the_user_leaves_its_last_line_in_its_log(given: Json) -> None:
    def told(message: str, **change: Any) -> str:
        ended = {**ENDED, "message": message}
        found = pod("p-0", **STARTING, restarts=3, waiting={"reason": "CrashLoopBackOff"}, ended=ended)
        found["spec"]["containers"][0] |= change
        problem = pod_problem(found)
        assert problem is not None
        return problem.message

    assert told(LAST, **given).endswith(
        "so its log is not shown here. To see the cause, run: kubectl logs p-0 -c broker"
    )
    assert "wJalrXUtnFEMI" not in told(LAST, **given)
    digest = {"env": [{**SECRET, "name": "ZOO_SUPER_DIGEST"}]}
    assert told(LAST, **digest).endswith(". The last line of its log is: using AKIA wJalrXUtnFEMI for bucket logs"), (
        "the operator's own"
    )
    refusal = "pulsar_start: environment: PULSAR_DATA cannot come from envFrom: take it out of the Secret"
    assert told(refusal, **given).endswith(f". The last line of its log is: {refusal}"), (
        "the start program names no value"
    )
    assert "-Dx=hush" not in told("pulsar_start: broker: java -Dx=hush", **given)
    assert told("", **given).endswith("was restarted 3 times")
