"""The operator's process against a real API server: watch, queue, Lease, signals, release."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from e2e.support.eventually import LOCAL, eventually
from pulsar_operator.api.constants import (
    FINALIZER,
    LABEL_MANAGED_BY,
    LABEL_OWNER_KIND,
    LABEL_OWNER_NAME,
    MANAGED_BY,
)
from tests.support.core.objects import config_map, tenant, topic
from tests.support.processes.apiserver import ApiServer

from .conftest import StartOperator

TENANTS = "/apis/pulsaroperator.io/v1alpha1/namespaces/{}/pulsartenants/{}"
TOPICS = "/apis/pulsaroperator.io/v1alpha1/namespaces/{}/pulsartopics/{}"
MERGE = "application/merge-patch+json"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/pulsar-operator"


def put(server: ApiServer, path: str, manifest: dict[str, Any]) -> dict[str, Any]:
    answer = server.apply(path, manifest)
    assert answer.code < 300, answer.message
    return answer.body


def test_events_become_passes_and_watching_writes_nothing(
    apiserver: ApiServer, namespace: str, start_operator: StartOperator
) -> None:
    put(apiserver, TENANTS.format(namespace, "before"), tenant(namespace, "before"))
    mark = apiserver.audit_mark()
    operator = start_operator(log_level="debug")  # each pass has its line there
    operator.ready()
    eventually(
        lambda: operator.begun(f"PulsarTenant {namespace}/before"),
        what="a pass over what was there before",
        every=LOCAL,
    )

    key = f"PulsarTenant {namespace}/live"
    put(apiserver, TENANTS.format(namespace, "live"), tenant(namespace, "live"))
    eventually(lambda: len(operator.begun(key)) == 1, what="a pass of the new object", every=LOCAL)
    changed = tenant(namespace, "live")
    changed["spec"]["adminRoles"] = ["me"]
    put(apiserver, TENANTS.format(namespace, "live"), changed)
    eventually(
        lambda: [p["generation"] for p in operator.begun(key)] == [1, 2], what="a pass of the change", every=LOCAL
    )
    apiserver.request("DELETE", TENANTS.format(namespace, "live"))
    eventually(lambda: operator.begun(key)[-1]["found"] is False, what="a pass of the deletion", every=LOCAL)

    labels = {LABEL_MANAGED_BY: MANAGED_BY, LABEL_OWNER_KIND: "PulsarCluster", LABEL_OWNER_NAME: "c"}
    put(apiserver, f"/api/v1/namespaces/{namespace}/configmaps/other", config_map(namespace, "other", {}))
    put(apiserver, f"/api/v1/namespaces/{namespace}/configmaps/ours", config_map(namespace, "ours", {}, labels=labels))
    eventually(lambda: operator.begun(f"PulsarCluster {namespace}/c"), what="a pass of the owner", every=LOCAL)

    code, metrics = operator.http("/metrics", metrics=True)
    assert code == 200
    assert 'pulsar_operator_reconciles_total{kind="PulsarTenant",result="ok"}' in metrics
    assert 'pulsar_operator_watch_last_event_age_seconds{kind="PulsarTenant"}' in metrics
    # "before" is there, "live" is gone, and nobody wrote a status.
    assert 'pulsar_operator_objects{kind="PulsarTenant",reason="Unknown"} 1.0' in metrics
    passes = [line for line in operator.lines if line.get("result")]
    assert {"kind", "namespace", "object", "seconds", "result", "time", "level"} <= set(passes[0])
    assert operator.stop() == 0
    writes = [
        event
        for event in apiserver.audit_events(since=mark)
        if event.verb in ("create", "update", "patch", "delete") and event.user_agent.startswith(("pulsar-", "kopf"))
    ]
    assert {event.resource for event in writes} == {"leases"}, writes


def test_a_second_operator_waits_and_takes_over(
    apiserver: ApiServer, namespace: str, start_operator: StartOperator
) -> None:
    first = start_operator(pod="first")
    first.ready()
    second = start_operator(pod="second")
    eventually(lambda: "held by first_" in second.http("/readyz")[1], what="the second operator to wait", every=LOCAL)
    assert second.http("/healthz")[0] == 200
    eventually(lambda: second.logged("Waiting for the Lease held by first_"), what="the second to log it", every=LOCAL)
    put(apiserver, TENANTS.format(namespace, "t"), tenant(namespace))
    eventually(lambda: first.begun(f"PulsarTenant {namespace}/t"), what="a pass by the first", every=LOCAL)
    assert not [line for line in second.lines if "begin" in line]

    def holder() -> str:
        """Name of the pod that holds the Lease, "" while nobody does."""
        return str(apiserver.request("GET", LEASE.format(namespace)).body["spec"].get("holderIdentity") or "")

    # A clean end gives the Lease back at once. The holder is the pod's name and a number that is new at each start.
    assert holder().startswith("first_")
    assert first.stop() == 0
    assert not holder().startswith("first_")
    second.ready()
    eventually(lambda: second.begun(f"PulsarTenant {namespace}/t"), what="a pass by the second", every=LOCAL)

    # A killed one keeps it until it runs out, which is here cut short.
    third = start_operator(pod="third")
    eventually(lambda: "held by second_" in third.http("/readyz")[1], what="the third operator to wait", every=LOCAL)
    second.stop(signal.SIGKILL)
    kept = apiserver.request("GET", LEASE.format(namespace)).body["spec"]
    assert kept["holderIdentity"].startswith("second_") and kept["leaseDurationSeconds"] == 30
    assert "held by second_" in third.http("/readyz")[1]
    promised = {"spec": {"leaseDurationSeconds": 1}}
    assert apiserver.request("PATCH", LEASE.format(namespace), promised, content_type=MERGE).code == 200
    third.ready()


def test_losing_the_lease_ends_the_process(apiserver: ApiServer, namespace: str, start_operator: StartOperator) -> None:
    # It notices when it renews the Lease, every third of that; and gives up when it could not for two thirds of that.
    operator = start_operator(lease_seconds="15")
    operator.ready()
    stolen = apiserver.request(
        "PATCH",
        LEASE.format(namespace),
        {"spec": {"holderIdentity": "thief"}},
        content_type=MERGE,
    )
    assert stolen.code == 200
    assert operator.wait() == 1
    eventually(lambda: operator.logged("taken by thief"), what="the loss in the log", every=LOCAL)
    assert apiserver.request("GET", LEASE.format(namespace)).body["spec"]["holderIdentity"] == "thief"


def test_sigterm_lets_a_pass_end(
    apiserver: ApiServer, namespace: str, start_operator: StartOperator, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    operator = start_operator(str(release))
    operator.ready()
    put(apiserver, TOPICS.format(namespace, "slow"), topic(namespace, "slow"))
    key = f"PulsarTopic {namespace}/slow"
    eventually(lambda: operator.begun(key), what="the slow pass to begin", every=LOCAL)
    operator.process.send_signal(signal.SIGTERM)
    eventually(lambda: "stopping" in operator.http("/readyz")[1], what="the operator to stop", every=LOCAL)
    patient = time.monotonic() + 1  # no eventually: it is to stay like this for a while
    while time.monotonic() < patient:
        assert "stopping" in operator.http("/readyz")[1], "it waits for the pass"
    assert not [line for line in operator.lines if line.get("end") == key]
    release.touch()
    assert operator.wait() == 0
    assert [line for line in operator.lines if line.get("end") == key]
    assert not apiserver.request("GET", LEASE.format(namespace)).body["spec"].get("holderIdentity")


def test_release_finalizers_frees_objects(apiserver: ApiServer, namespace: str, start_operator: StartOperator) -> None:
    put(apiserver, TENANTS.format(namespace, "a"), tenant(namespace, "a"))
    guard = tenant(namespace, "a", finalizers=[FINALIZER])
    del guard["spec"]
    answer = apiserver.apply(TENANTS.format(namespace, "a"), guard, manager="pulsar-operator-finalizer")
    assert answer.code == 200, answer.message
    # Restored from a backup: the user's manager owns the finalizer.
    kept = tenant(namespace, "b", finalizers=["example.com/theirs", FINALIZER])
    put(apiserver, TENANTS.format(namespace, "b"), kept)
    put(apiserver, TENANTS.format(namespace, "c"), tenant(namespace, "c"))
    assert apiserver.request("DELETE", TENANTS.format(namespace, "a")).code == 200

    release = start_operator("release-finalizers", "--wait", "30", module="pulsar_operator")
    assert release.wait() == 0
    said = [line.get("text", "") for line in release.lines]
    assert f"PulsarTenant {namespace}/a: released" in said and f"PulsarTenant {namespace}/b: released" in said
    assert "2 objects released, 0 failed" in said
    assert apiserver.request("GET", TENANTS.format(namespace, "a")).code == 404
    left = apiserver.request("GET", TENANTS.format(namespace, "b")).body
    assert left["metadata"]["finalizers"] == ["example.com/theirs"]


def test_release_finalizers_waits_for_the_running_operator(namespace: str, start_operator: StartOperator) -> None:
    operator = start_operator()
    operator.ready()
    release = start_operator("release-finalizers", "--wait", "2", module="pulsar_operator")
    assert release.wait() == 1
    assert any("Stop that operator first" in line.get("text", "") for line in release.lines)
    assert operator.stop() == 0


@pytest.mark.parametrize("settings", [{"workers": "none"}, {"no_such": "1"}])
def test_bad_settings_end_in_one_sentence(start_operator: StartOperator, settings: dict[str, str]) -> None:
    operator = start_operator(module="pulsar_operator", **settings)
    assert operator.wait() == 2
    (line,) = operator.lines
    assert f"PULSAR_OPERATOR_{next(iter(settings)).upper()}" in line["text"]


def test_silent_streams_are_opened_again_and_alive(
    apiserver: ApiServer, namespace: str, start_operator: StartOperator
) -> None:
    mark = apiserver.audit_mark()
    # Bookmarks come once a minute if at all, so every stream is silent all the time.
    operator = start_operator(watch_silence_seconds="3")
    operator.ready()

    def count(verb: str) -> int:
        events = apiserver.audit_events(since=mark, user_agent_prefix="pulsar-operator/")
        return sum(event.verb == verb and event.resource == "statefulsets" for event in events)

    # Streams are in the audit log once they end; each third one is followed by a list.
    eventually(lambda: count("watch") > 5, what="silent streams to be opened again and again", every=LOCAL)
    eventually(lambda: count("list") > 1, what="a list after silent streams", every=LOCAL)
    eventually(lambda: operator.http("/healthz")[0] == 200, what="the operator is alive", every=LOCAL)
    # What happens on such a stream is heard of at once.
    put(apiserver, TENANTS.format(namespace, "t"), tenant(namespace))
    eventually(lambda: operator.begun(f"PulsarTenant {namespace}/t"), what="a pass of a new object", every=LOCAL)
    print("RSS of the idle operator:", operator.rss(), "MiB")
    assert operator.stop() == 0
