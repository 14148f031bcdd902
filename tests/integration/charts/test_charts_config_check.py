"""The config check of the operator's chart on a real API server: it refuses what the operator would not apply."""

from __future__ import annotations

import tomllib
import uuid
from typing import Any

import pytest

from e2e.support.eventually import LOCAL, eventually
from pulsar_operator.api.constants import Component, Kind
from pulsar_operator.domain.render.settings import CONFIG_FIELDS, judge
from pulsar_operator.runtime import known_settings
from tests.support.admission.samples import manifest, minimal, path
from tests.support.processes.apiserver import ApiServer, Response
from tests.support.processes.helm import OPERATOR_CHART, ROOT, Helm

Json = dict[str, Any]

TESTED = tomllib.loads((ROOT / "versions.toml").read_text(encoding="utf-8"))["pulsar"]["tested"]
KNOWN = known_settings()
UNKNOWN = {"nosuchkeyatall": "1"}
MERGE = "application/merge-patch+json"


def with_config(component: Component, config: dict[str, str], version: str = TESTED) -> tuple[Kind, Json]:
    """The smallest object with a config of a component."""
    kind = Kind.INSTANCE if component is Component.CONFIGURATION_STORE else Kind.CLUSTER
    spec: Json = {**minimal(kind), "version": version}
    if component is Component.STANDALONE:
        spec = {"instanceRef": spec["instanceRef"], "version": version, "mode": "Standalone"}
    at = spec
    for name in CONFIG_FIELDS[component].removeprefix("spec.").split(".")[:-1]:
        at[name] = dict(at.get(name) or {})
        at = at[name]
    at["config"] = config
    if kind is Kind.INSTANCE:
        spec["configurationStore"] = {"managed": {"config": config}}
    return kind, spec


class Checked:
    """A namespace where the policy holds."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self.server, self.namespace = server, namespace

    def create(self, kind: Kind, spec: Json, *, dry: bool = True, name: str = "") -> Response:
        """Make an object, or only ask."""
        obj = manifest(kind, name or f"o-{uuid.uuid4().hex[:8]}", spec)
        query = {"dryRun": "All"} if dry else {}
        return self.server.request("POST", path(kind, self.namespace), obj, query=query)

    def patch(self, kind: Kind, name: str, spec: Json) -> Response:
        """Change an object."""
        where = path(kind, self.namespace, name)
        return self.server.request("PATCH", where, {"spec": spec}, content_type=MERGE)


@pytest.fixture(scope="module")
def checked(helm: Helm, apiserver: ApiServer) -> Checked:
    release, watched = apiserver.new_namespace("config"), apiserver.new_namespace("config")
    values = {"crds": {"install": False}, "watchNamespaces": [watched]}
    where = f"--namespace={release}"
    helm.run("install", "op", str(OPERATOR_CHART), where, kubeconfig=apiserver.kubeconfig, values=values)
    found = Checked(apiserver, watched)
    kind, spec = with_config(Component.BROKER, UNKNOWN)
    eventually(lambda: found.create(kind, spec).code == 422, what="the policy to be in force", every=LOCAL)
    return found


CASES: list[tuple[Component, dict[str, str]]] = [
    *((component, UNKNOWN) for component in CONFIG_FIELDS if component is not Component.AUTORECOVERY),
    (Component.BROKER, {"maxProducersPerTopic": "7"}),
    (Component.BROKER, {"batchIndexAcknowledgeEnable": "true"}),
    (Component.BROKER, {"brokerDeleteInactiveTopicEnabled": "true"}),
    (Component.BROKER, {"bookkeeper_x": "1", "brokerClient_x": "1", "PULSAR_PREFIX_x": "1"}),
    (Component.BROKER, {"messagingProtocols": "kafka", "kafkaListeners": "x"}),
    (Component.BROKER, {"messagingProtocols": "", "kafkaListeners": "x"}),
    (Component.BROKER, {"topicFactoryClassName": "com.example.Topics", "exampleKey": "x"}),
    (Component.BROKER, {"topicFactoryClassName": "org.apache.pulsar.Topics", "exampleKey": "x"}),
    (Component.BROKER, {"managedLedgerOffloadDriver": "aws-s3"}),
    (Component.BROKER, {"managedLedgerOffloadDriver": ""}),
    (Component.BROKER, {"PULSAR_PREFIX_managedLedgerOffloadDriver": "aws-s3"}),
    (Component.BOOKIE, {"gcWaitTime": "1", "dbStorage_x": "1", "lostBookieRecoveryDelay": "1"}),
    (Component.BOOKIE, {"gcWaitTme": "1"}),
    (Component.PROXY, {"httpReverseProxy.a": "1", "maxConcurrentLookupRequests": "1"}),
    (Component.ZOOKEEPER, {"snapshot.compression.method": "gz"}),
    (Component.ZOOKEEPER, {"snapCont": "1"}),
    (Component.CONFIGURATION_STORE, {"metricsProvider.x": "1"}),
    (Component.STANDALONE, {"journalSyncData": "false", "maxProducersPerTopic": "1"}),
    (Component.STANDALONE, {"managedLedgerOffloadDriver": "aws-s3"}),
]


@pytest.mark.parametrize(("component", "config"), CASES, ids=str)
@pytest.mark.parametrize("version", [TESTED, "4.9.9"])
def test_it_refuses_what_the_operator_would_not_apply(
    checked: Checked, component: Component, config: dict[str, str], version: str
) -> None:
    answer = checked.create(*with_config(component, config, version))
    problems = judge(component, version, config, KNOWN).problems
    assert answer.code == (422 if problems else 201), answer.message
    if problems:
        key = sorted(key for key in config if key not in judge(component, version, config, KNOWN).applied)[0]
        assert CONFIG_FIELDS[component] in answer.message and key.removeprefix("PULSAR_PREFIX_") in answer.message


@pytest.mark.parametrize(
    ("component", "key", "near"),
    [
        (Component.BROKER, "brokerDeleteInactiveTopicEnabled", "brokerDeleteInactiveTopicsEnabled"),
        (Component.BROKER, "managedledgercachesizemb", "managedLedgerCacheSizeMB"),
        (Component.BOOKIE, "lostBookieRecoveryDelai", "lostBookieRecoveryDelay"),
        (Component.ZOOKEEPER, "autopurge.purgeIntervall", "autopurge.purgeInterval"),
    ],
)
def test_it_names_a_near_setting(checked: Checked, component: Component, key: str, near: str) -> None:
    message = checked.create(*with_config(component, {key: "1"})).message
    assert f'{CONFIG_FIELDS[component]} key "{key}" is no setting of Pulsar {TESTED}' in message
    assert f"write {near}, or PULSAR_PREFIX_{key} to apply it unchecked" in message


def test_an_object_that_has_such_a_key_may_be_changed_otherwise(checked: Checked, apiserver: ApiServer) -> None:
    """It was stored under a version that nobody knows; a further key of that kind is refused."""
    old = {**UNKNOWN, "managedLedgerOffloadDriver": "aws-s3"}
    kind, spec = with_config(Component.BROKER, UNKNOWN, "4.9.9")
    name = "o-stored"
    assert checked.create(kind, spec, dry=False, name=name).code == 201
    assert checked.patch(kind, name, {"version": TESTED}).code == 200
    assert checked.patch(kind, name, {"broker": {"replicas": 2}}).code == 200
    assert checked.patch(kind, name, {"broker": {"config": {"nosuchkeyatall": "2"}}}).code == 200
    assert checked.patch(kind, name, {"broker": {"config": old}}).code == 422
    assert checked.patch(kind, name, {"broker": {"config": {"another": "1"}}}).code == 422
    assert checked.patch(kind, name, {"broker": {"config": {"nosuchkeyatall": None}}}).code == 200


OFFLOAD = {"driver": "S3", "bucket": "b", "region": "r"}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (Kind.TENANT, {"namespaceDefaults": {"offload": OFFLOAD}}),
        (Kind.NAMESPACE, {"policies": {"offload": OFFLOAD}}),
        (Kind.TOPIC, {"policies": {"offload": OFFLOAD}}),
        (Kind.TOPIC_SET, {"template": {"policies": {"offload": OFFLOAD}}}),
    ],
)
def test_offload_policies_are_refused(checked: Checked, kind: Kind, spec: Json) -> None:
    answer = checked.create(kind, {**minimal(kind), **spec})
    assert answer.code == 422
    assert "this version does not support tiered storage and no image has an offload driver" in answer.message
    assert checked.create(kind, minimal(kind)).code == 201


def test_many_keys_are_let_through_rather_than_time(checked: Checked) -> None:
    """CEL has a budget; what it cannot judge the operator does."""
    config = {f"bookkeeper_{number}": "1" for number in range(500)} | {"x" * 200: "1"}
    assert checked.create(*with_config(Component.BROKER, config)).code in (201, 422)


def test_switched_off_there_is_none(helm: Helm) -> None:
    objects = helm.template(OPERATOR_CHART, {"configCheck": {"enabled": False}})
    assert not [each for each in objects if each["metadata"]["name"].endswith(("-config-check", "-settings"))]
