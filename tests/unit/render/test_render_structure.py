"""What holds for every manifest of every accepted spec: names, labels, security, probes, volumes, determinism."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import (
    ANNOTATION_CONFIG_HASH,
    LABEL_COMPONENT,
    LABEL_MANAGED_BY,
    LABEL_NAME,
    LABEL_OWNER_KIND,
    LABEL_OWNER_NAME,
    Component,
    Kind,
)
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.instance import ManagedZooKeeper
from pulsar_operator.domain.render import render_cluster, render_configuration_store, selector_text
from pulsar_operator.domain.render.child_names import child_name, is_claim_of, is_labelled
from pulsar_operator.domain.render.common import WRITABLE
from tests.support.cluster.pod_fields import USERS
from tests.support.cluster.rendering import (
    CLUSTER_NAMES,
    DISTRIBUTED_SPECS,
    SPECS,
    distributed,
    inputs,
    owner,
    standalone,
)

Manifest = dict[str, Any]
WORKLOAD_LABELS = {LABEL_COMPONENT, LABEL_OWNER_KIND, LABEL_OWNER_NAME, LABEL_MANAGED_BY, LABEL_NAME}
DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
RESTRICTED_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret"}
SLOW = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def check_manifests(manifests: list[Manifest]) -> None:
    """The structural check of a set of manifests that are applied together."""
    seen = set()
    for manifest in manifests:
        meta = manifest["metadata"]
        assert (manifest["kind"], meta["name"]) not in seen
        seen.add((manifest["kind"], meta["name"]))
        assert DNS_1035.fullmatch(meta["name"]), meta["name"]
        # A ConfigMap's may be that of a DNS subdomain; the others become DNS labels.
        assert len(meta["name"]) <= (253 if manifest["kind"] == "ConfigMap" else 63)
        check_labels(meta["labels"])
        (reference,) = meta["ownerReferences"]
        assert reference["controller"] is True
        assert reference["uid"]
    names = {(m["kind"], m["metadata"]["name"]) for m in manifests}
    for manifest in manifests:
        if manifest["kind"] == "StatefulSet":
            check_stateful_set(manifest, names)
        elif manifest["kind"] in ("Service", "PodDisruptionBudget"):
            check_selects_pods(manifest, manifests)


def check_labels(labels: dict[str, str]) -> None:
    assert {LABEL_OWNER_KIND, LABEL_OWNER_NAME, LABEL_MANAGED_BY} <= labels.keys()
    for value in labels.values():
        assert len(value) <= 63
        assert LABEL_VALUE.fullmatch(value), value


def check_stateful_set(manifest: Manifest, names: set[tuple[str, str]]) -> None:
    spec, name = manifest["spec"], manifest["metadata"]["name"]
    # The StatefulSet controller labels pods <name>-<hash of up to 10 digits>, and names them <name>-<ordinal>.
    assert len(name) + len("-4294967295") <= 63
    assert len(f"{name}-1023") <= 63
    assert spec["podManagementPolicy"] == "Parallel"
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert ("Service", spec["serviceName"]) in names
    template = spec["template"]
    assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert set(spec["selector"]["matchLabels"]) == {LABEL_COMPONENT, LABEL_OWNER_KIND, LABEL_OWNER_NAME}
    assert template["metadata"]["labels"].keys() >= WORKLOAD_LABELS
    check_labels(template["metadata"]["labels"])
    assert template["metadata"]["annotations"][ANNOTATION_CONFIG_HASH]
    check_pod(template["spec"], spec.get("volumeClaimTemplates", []), names)
    check_claims(manifest)


def check_claims(manifest: Manifest) -> None:
    """The claims of its pods are known as such by name and labels when they are to be deleted."""
    (reference,) = manifest["metadata"]["ownerReferences"]
    made_by = owner(reference["name"], Kind(reference["kind"]))
    for template in manifest["spec"].get("volumeClaimTemplates", []):
        name = f"{template['metadata']['name']}-{manifest['metadata']['name']}-11"
        assert is_claim_of(made_by, name), name
        assert is_labelled(made_by, template)


def check_pod(pod: Manifest, claims: list[Manifest], names: set[tuple[str, str]]) -> None:
    """Pod Security Standard restricted, a read-only root, and nothing that points nowhere."""
    assert ("ServiceAccount", pod["serviceAccountName"]) in names
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert {"name": "ndots", "value": "1"} in pod["dnsConfig"]["options"]
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    check_users(pod)
    volumes = {volume["name"]: volume for volume in pod["volumes"] if not volume["name"].startswith(USERS)}
    for volume in volumes.values():
        assert volume.keys() - {"name"} <= {"configMap", "emptyDir"}
        if "configMap" in volume:
            assert ("ConfigMap", volume["configMap"]["name"]) in names
    container = pod["containers"][0]
    security = container["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    mounts = [mount for mount in container["volumeMounts"] if not mount["name"].startswith(USERS)]
    mounted = {mount["name"]: mount["mountPath"] for mount in mounts}
    assert set(mounted) == set(volumes) | {claim["metadata"]["name"] for claim in claims}
    assert set(WRITABLE.items()) <= set(mounted.items())
    ports = {port["name"] for port in container["ports"]}
    for port in container["ports"]:
        assert len(port["name"]) <= 15
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        for handler in ("httpGet", "tcpSocket"):
            if handler in container[kind]:
                assert container[kind][handler]["port"] in ports
        assert {"httpGet", "tcpSocket", "exec"} & container[kind].keys()
    env = [entry["name"] for entry in container["env"]]
    assert env[0] == "POD_NAME"
    assert len(env) == len(set(env))


def check_users(pod: Manifest) -> None:
    """Of what users add, too, nothing breaks the standard (https://kubernetes.io/docs/concepts/security/)."""
    for volume in pod["volumes"]:
        assert volume.keys() - {"name"} <= RESTRICTED_VOLUMES
    theirs = [*pod["containers"][1:], *pod.get("initContainers", [])]
    for container in theirs:
        assert container["securityContext"] == pod["containers"][0]["securityContext"]
        assert {mount["name"] for mount in container.get("volumeMounts", [])} <= {v["name"] for v in pod["volumes"]}
    for names in ([v["name"] for v in pod["volumes"]], [c["name"] for c in (pod["containers"][0], *theirs)]):
        assert len(names) == len(set(names))


def check_selects_pods(manifest: Manifest, manifests: list[Manifest]) -> None:
    selector = manifest["spec"]["selector"]
    wanted = selector.get("matchLabels", selector)
    matching = [
        m
        for m in manifests
        if m["kind"] == "StatefulSet" and wanted.items() <= m["spec"]["template"]["metadata"]["labels"].items()
    ]
    assert len(matching) == 1, "a Service or PDB selects the pods of exactly one component"
    if manifest["kind"] == "Service":
        names = {port["name"] for port in matching[0]["spec"]["template"]["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in manifest["spec"]["ports"]} <= names


@SLOW
@given(SPECS, CLUSTER_NAMES)
def test_every_accepted_spec_renders_well_formed_manifests(spec: PulsarClusterSpec, name: str) -> None:
    rendered = render_cluster(inputs(spec, name=name))
    check_manifests(rendered.all())


@SLOW
@given(SPECS, CLUSTER_NAMES)
def test_rendering_is_deterministic(spec: PulsarClusterSpec, name: str) -> None:
    again = PulsarClusterSpec.model_validate(copy.deepcopy(spec.model_dump(by_alias=True)))
    assert render_cluster(inputs(spec, name=name)).all() == render_cluster(inputs(again, name=name)).all()


@SLOW
@given(SPECS)
def test_user_labels_never_replace_the_operators(spec: PulsarClusterSpec) -> None:
    for component, manifests in render_cluster(inputs(spec)).ordered():
        for manifest in manifests:
            assert manifest["metadata"]["labels"][LABEL_COMPONENT] == component.value


@SLOW
@given(st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", fullmatch=True))
def test_instances_of_any_name_get_usable_children(name: str) -> None:
    rendered = render_configuration_store(
        owner(name, Kind.INSTANCE), ManagedZooKeeper(), image="i", super_digest_secret="s"
    )
    check_manifests(rendered.manifests)


@pytest.mark.parametrize("name", ["a" * 40, f"a{'-' * 38}a", "a" + "9" * 39])
def test_names_of_the_greatest_length_leave_room(name: str) -> None:
    rendered = render_cluster(inputs(distributed(), name=name))
    check_manifests(rendered.all())
    check_manifests(render_cluster(inputs(standalone(), name=name)).all())


@pytest.mark.parametrize("name", ["x" * 33, "x" * 253, "1.example.com", "a.b", "a-b"])
def test_unusable_instance_names_are_shortened_but_stay_distinct(name: str) -> None:
    one, other = (child_name(n, "configuration-store") for n in (name, f"{name}x"))
    assert one != other
    assert len(one) <= 52
    assert DNS_1035.fullmatch(one)


def test_an_instance_and_a_cluster_of_one_name_share_no_child() -> None:
    store = render_configuration_store(
        owner("my", Kind.INSTANCE), ManagedZooKeeper(), image="i", super_digest_secret="s"
    )
    spec = PulsarClusterSpec.model_validate({"instanceRef": {"name": "my"}, "metadataStore": {"managed": {}}})
    cluster = render_cluster(inputs(spec, name="my"))
    names = [{(m["kind"], m["metadata"]["name"]) for m in side} for side in (store.manifests, cluster.all())]
    assert not names[0] & names[1]


@given(CLUSTER_NAMES, CLUSTER_NAMES)
def test_different_owners_have_different_selectors(one: str, other: str) -> None:
    same = selector_text(owner(one), Component.BROKER) == selector_text(owner(other), Component.BROKER)
    assert same == (one == other)


@SLOW
@given(DISTRIBUTED_SPECS)
def test_a_ready_claim_of_a_bookie_is_in_its_configuration(spec: PulsarClusterSpec) -> None:
    assert spec.bookkeeper is not None
    manifests = render_cluster(inputs(spec)).of(Component.BOOKIE)
    (config,) = [m for m in manifests if m["kind"] == "ConfigMap"]
    (workload,) = [m for m in manifests if m["kind"] == "StatefulSet"]
    mounts = workload["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    values = dict(line.split("=", 1) for line in config["data"]["overrides.conf"].splitlines())
    folders = values["journalDirectories"].split(",") + values["ledgerDirectories"].split(",")
    assert len(folders) == spec.bookkeeper.journal.count + spec.bookkeeper.ledgers.count
    assert set(folders) == {m["mountPath"] for m in mounts if m["mountPath"].startswith("/pulsar/data/")}
