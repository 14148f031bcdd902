"""What users say of pods reaches them, and nothing of the operator's own is hidden or replaced by it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from pulsar_operator.api.constants import Component, Kind
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.instance import ManagedZooKeeper
from pulsar_operator.api.v1alpha1.pods import PodTemplate
from pulsar_operator.domain.render import render_cluster, render_configuration_store, spec_problems
from pulsar_operator.domain.render.listeners import SERVED
from pulsar_operator.domain.render.mounts import KERNEL, NEEDED, SEALED
from pulsar_operator.domain.render.pod_checks import pod_problems
from tests.support.cluster.pod_fields import EVERY_FIELD, USERS
from tests.support.cluster.rendering import CLUSTER_NAMES, SPECS, container, distributed, inputs, of_kind, owner

Json = dict[str, Any]
TOKEN: Json = {"name": "token", "secret": {"secretName": "broker-token", "optional": False}}


def pod_spec(component: Component, spec: PulsarClusterSpec) -> Json:
    assert spec_problems(spec) == []
    manifests = render_cluster(inputs(spec)).of(component)
    return dict(of_kind(manifests, "StatefulSet")["spec"]["template"]["spec"])


def problems(**pod: Any) -> list[str]:
    return pod_problems("spec.broker.pod", PodTemplate.model_validate(pod), SERVED[Component.BROKER].ports)


ENV: list[tuple[Json, Json]] = [
    ({"name": "A", "value": "x"}, {"name": "A", "value": "x"}),
    ({"name": "A"}, {"name": "A", "value": ""}),
    (
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "secret", "optional": False}}},
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "secret"}}},
    ),
    (
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}},
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}},
    ),
    (
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
    ),
]


@pytest.mark.parametrize(("given", "rendered"), ENV)
def test_variables_come_last_and_from_where_they_were_said_to(given: Json, rendered: Json) -> None:
    pod = pod_spec(Component.BROKER, distributed(broker={"pod": {"env": [given]}}))
    assert pod["containers"][0]["env"][-1] == rendered
    assert pod["containers"][0]["env"][0]["name"] == "POD_NAME"


def test_whole_secrets_come_with_a_list_of_the_operators_own_variables() -> None:
    sources = [{"prefix": "S3_", "secretRef": {"name": "s3"}}, {"configMapRef": {"name": "c", "optional": True}}]
    section = {"pod": {"envFrom": sources, "env": [{"name": "MINE", "value": "x"}]}}
    main = pod_spec(Component.BROKER, distributed(broker=section))["containers"][0]
    assert main["envFrom"] == sources
    values = {entry["name"]: entry.get("value") for entry in main["env"]}
    assert values["PULSAR_OPERATOR_VARIABLES"] == "POD_NAME,PULSAR_CONF_advertisedAddress"
    assert values["MINE"] == "x"
    without = container(render_cluster(inputs(distributed())).of(Component.BROKER))
    assert "envFrom" not in without
    assert "PULSAR_OPERATOR_VARIABLES" not in {entry["name"] for entry in without["env"]}


VOLUMES: list[tuple[Json, Json]] = [
    ({"secret": {"secretName": "s", "items": [{"key": "a.b", "path": "x/y"}]}}, {}),
    ({"secret": {"secretName": "s", "optional": False, "items": []}}, {"secret": {"secretName": "s"}}),
    ({"configMap": {"name": "c", "optional": True}}, {}),
    ({"emptyDir": {}}, {}),
    ({"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}, {}),
    ({"projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}, {}),
    (
        {"csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": True, "volumeAttributes": {"class": "v"}}},
        {},
    ),
    (
        {"persistentVolumeClaim": {"claimName": "models", "readOnly": False}},
        {"persistentVolumeClaim": {"claimName": "models"}},
    ),
]


@pytest.mark.parametrize(("source", "rendered"), VOLUMES)
def test_volumes_are_added_and_mounted(source: Json, rendered: Json) -> None:
    mount = {"name": "extra", "mountPath": "/mnt/extra", "subPath": "a", "readOnly": True}
    section = {"pod": {"volumes": [{"name": "extra", **source}], "volumeMounts": [mount]}}
    plain = pod_spec(Component.BOOKIE, distributed())
    pod = pod_spec(Component.BOOKIE, distributed(bookkeeper={"replicas": 2, **section}))
    assert pod["volumes"] == [*plain["volumes"], {"name": "extra", **(rendered or source)}]
    assert pod["containers"][0]["volumeMounts"] == [*plain["containers"][0]["volumeMounts"], mount]


MOUNTS_REFUSED = [
    *(path for folder in (*SEALED, *NEEDED) for path in (folder, f"{folder}/")),
    *(f"{folder}/inside" for folder in SEALED),
    "//tmp",
    "/pulsar",
    "/opt",
    "/opt/java",
    "/opt/jvm",
    "/usr",
    "/usr/local",
    "/.",
    "/mnt//x",
    "/etc/../etc/pulsar-operator",
    "/mnt/..",
    "/pulsar/./logs",
]


@pytest.mark.parametrize("path", MOUNTS_REFUSED)
def test_nothing_is_mounted_over_what_the_operator_needs(path: str) -> None:
    (problem,) = problems(volumes=[TOKEN], volumeMounts=[{"name": "token", "mountPath": path}])
    assert problem.startswith(f'spec.broker.pod.volumeMounts mountPath "{path}" ')
    assert problem.endswith(("Choose another path", "Write the path without it"))


@pytest.mark.parametrize(
    "path",
    [
        "/mnt/token",
        "/pulsar/logs/heap",
        "/tmp/cache",
        "/pulsar/lib/filter.jar",
        "/etc/ssl/certs",
        "/pulsar/datas",
        "/system",
        "/usr/local/share/ca-certificates",
        "/opt/jvm/lib/security/cacerts",
    ],
)
def test_what_hides_nothing_may_be_mounted(path: str) -> None:
    assert problems(volumes=[TOKEN], volumeMounts=[{"name": "token", "mountPath": path}]) == []


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ({"volumes": [TOKEN, TOKEN]}, 'spec.broker.pod.volumes name "token" appears twice. Remove one'),
        ({"volumeMounts": [{"name": "token", "mountPath": "/mnt/x"}]}, 'volume "token", which is not in volumes'),
        (
            {"volumes": [TOKEN], "volumeMounts": [{"name": "token", "mountPath": p} for p in ("/mnt/x", "/mnt/x/")]},
            'mountPath "/mnt/x" appears twice',
        ),
        ({"volumes": [{"name": "a"}]}, "volumes[0] must have exactly one of secret, configMap, emptyDir,"),
        ({"volumes": [{**TOKEN, "emptyDir": {}}]}, "volumes[0] must have exactly one of secret, configMap, emptyDir,"),
        *(
            (
                {"volumes": [{"name": name, "emptyDir": {}}]},
                f'volumes name "{name}" is used by a volume of the operator',
            )
            for name in ("config", "tmp", "logs", "conf-rendered", "data", "journal-0", "ledgers-15")
        ),
    ],
)
def test_collisions_are_refused_by_name(pod: Json, words: str) -> None:
    (problem,) = problems(**pod)
    assert words in problem


def test_env_names_of_the_operator_are_refused() -> None:
    names = ["PULSAR_CONF_clusterName", "ZOO_REPLICAS", "POD_NAME", "PULSAR_HOME", "PULSAR_OPERATOR_X", "FINE", "FINE"]
    found = problems(env=[{"name": name} for name in names])
    assert len(found) == 6
    assert all("spec.broker.pod.env" in problem for problem in found)
    assert "twice" in found[-1]


@given(SPECS, CLUSTER_NAMES)
def test_claims_with_the_data_of_pulsar_are_refused_whosever_they_are(spec: PulsarClusterSpec, name: str) -> None:
    """A bookie's journal seen by a second pod, or a claim of a pod that does not run yet."""
    for _, manifests in render_cluster(inputs(spec, name=name)).ordered():
        workload = of_kind(manifests, "StatefulSet")
        for template in workload["spec"].get("volumeClaimTemplates", []):
            claim = f"{template['metadata']['name']}-{workload['metadata']['name']}-0"
            (problem,) = problems(volumes=[{"name": "mine", "persistentVolumeClaim": {"claimName": claim}}])
            assert (
                f'spec.broker.pod.volumes[0].persistentVolumeClaim.claimName "{claim}" is the data volume of' in problem
            )
            assert problem.endswith("Name another claim")


@pytest.mark.parametrize(
    "claim", ["models", "data", "data-my-broker-0", "ledgers-0-my-bookie", "x-ledgers-0-my-bookie-0"]
)
def test_claims_of_others_may_be_mounted(claim: str) -> None:
    assert problems(volumes=[{"name": "mine", "persistentVolumeClaim": {"claimName": claim}}]) == []


@pytest.mark.parametrize(
    "name",
    [
        "container.apparmor.security.beta.kubernetes.io/broker",
        "container.apparmor.security.beta.kubernetes.io/fetch",
        "container.seccomp.security.alpha.kubernetes.io/broker",
        "seccomp.security.alpha.kubernetes.io/pod",
    ],
)
def test_annotations_do_not_get_pods_refused_by_the_standard(name: str) -> None:
    """The StatefulSet would be accepted all the same, and a roll would go on until its first pod is gone."""
    (problem,) = problems(annotations={name: "unconfined"})
    assert problem.startswith(
        f'spec.broker.pod.annotations "{name}" would make Pod Security Standard restricted refuse the pods'
    )
    assert "runtime/default or localhost/<profile>" in problem
    for allowed in ("runtime/default", "localhost/own", ""):
        assert problems(annotations={name: allowed, "team": "unconfined"}) == []


def test_a_service_account_does_not_keep_secrets_from_its_pods() -> None:
    name = "kubernetes.io/enforce-mountable-secrets"
    (problem,) = problems(serviceAccountAnnotations={name: "true"})
    assert problem.startswith(
        f'spec.broker.pod.serviceAccountAnnotations "{name}" would make Kubernetes refuse pods with Secrets'
    )
    assert problems(serviceAccountAnnotations={name: "false"}) == []


@pytest.mark.parametrize("prefix", ["ZOO_", "PULSAR_CONF_", "POD_X", "PULSAR_OPERATOR_"])
def test_a_prefix_of_the_operator_is_refused(prefix: str) -> None:
    source = {"prefix": prefix, "secretRef": {"name": "s3"}}
    (problem,) = problems(envFrom=[source])
    assert problem.startswith(f'spec.broker.pod.envFrom prefix "{prefix}" is reserved')
    assert problem.endswith("Choose another prefix")
    assert problems(envFrom=[{**source, "prefix": "S3_"}, {"secretRef": {"name": "s3"}}]) == []


@given(SPECS)
def test_every_volume_and_mount_of_the_operators_own_is_known_to_the_check(spec: PulsarClusterSpec) -> None:
    """A volume that rendering gets one day is refused to users the same day."""
    for _, manifests in render_cluster(inputs(spec)).ordered():
        pod = of_kind(manifests, "StatefulSet")["spec"]["template"]["spec"]
        for mount in pod["containers"][0]["volumeMounts"]:
            if mount["name"].startswith(USERS):
                continue
            assert "a volume of the operator" in problems(volumes=[{"name": mount["name"], "emptyDir": {}}])[0]
            theirs = {"volumes": [TOKEN], "volumeMounts": [{"name": "token", "mountPath": mount["mountPath"]}]}
            assert len(problems(**theirs)) == 1


def test_every_component_is_checked_where_it_stands() -> None:
    wrong = {"pod": {"volumes": [{"name": "tmp", "emptyDir": {}}]}}
    spec = distributed(
        metadataStore={"managed": wrong},
        bookkeeper={**wrong, "replicas": 2, "autoRecovery": wrong},
        broker=wrong,
        proxy=wrong,
    )
    assert [problem.split(".pod.")[0] for problem in spec_problems(spec)] == [
        "spec.metadataStore.managed",
        "spec.bookkeeper",
        "spec.bookkeeper.autoRecovery",
        "spec.broker",
        "spec.proxy",
    ]


def test_the_template_that_tests_share_has_every_field() -> None:
    assert set(EVERY_FIELD) == {info.alias for info in PodTemplate.model_fields.values()}
    spec = distributed(broker={"pod": EVERY_FIELD})
    assert spec_problems(spec) == []


FETCH: Json = {"name": "fetch", "image": "fetch:1"}
READ_ONLY_NOBODY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
}


def test_other_containers_come_beside_the_main_one_under_its_security_context() -> None:
    section = {
        "pod": {"sidecars": EVERY_FIELD["sidecars"], "initContainers": [FETCH], "volumes": EVERY_FIELD["volumes"]}
    }
    pod = pod_spec(Component.PROXY, distributed(proxy=section))
    main, sidecar = pod["containers"]
    assert main["name"] == "proxy"
    assert main["securityContext"] == sidecar["securityContext"] == READ_ONLY_NOBODY
    assert sidecar["resources"] == {"requests": {"cpu": "1", "memory": "1024Mi"}}
    assert sidecar["ports"] == EVERY_FIELD["sidecars"][0]["ports"]
    assert sidecar["args"] == ["", "--follow"]
    assert sidecar["env"][0] == {"name": "A", "value": ""}
    assert sidecar["envFrom"] == [{"secretRef": {"name": "s3"}}]
    assert sidecar["readinessProbe"] == {"httpGet": {"path": "/ok", "port": "ship"}}
    assert pod["initContainers"] == [
        {**FETCH, "terminationMessagePolicy": "FallbackToLogsOnError", "securityContext": READ_ONLY_NOBODY}
    ]


SIDECARS_REFUSED: list[tuple[Json, str]] = [
    (
        {"securityContext": {"privileged": True}},
        "field securityContext, which is not allowed. Use only the fields name, image,",
    ),
    ({"lifecycle": {}}, "field lifecycle, which is not allowed"),
    ({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {}}}]}, "field env.0.valueFrom.resourceFieldRef"),
    ({"env": [{"name": "A", "valueFrom": {}}]}, 'env name "A" must have value, or exactly one of the sources'),
    ({"env": [{"name": "A"}, {"name": "A"}]}, 'env name "A" appears twice'),
    ({"envFrom": [{"prefix": "A_"}]}, "envFrom must have exactly one of secretRef and configMapRef"),
    ({"name": "broker"}, "has the name of a container of the operator"),
    ({"name": "proxy"}, "has the name of a container of the operator"),
    ({"volumeMounts": [{"name": "data", "mountPath": "/x"}]}, 'mounts volume "data", which is not in volumes'),
    *(
        (
            {"volumeMounts": [{"name": "logs", "mountPath": path}]},
            f'mountPath "{path}" belongs to the kernel. Choose another',
        )
        for folder in KERNEL
        for path in (folder, f"{folder}/", f"{folder}/x", f"/.{folder}", f"{folder}/./x")
    ),
    ({"volumeMounts": [{"name": "logs", "mountPath": "/."}]}, "belongs to the kernel"),
    ({"volumeMounts": [{"name": "logs", "mountPath": "/a/../proc"}]}, "contains ... Write the path without it"),
    ({"volumeMounts": [{"name": "logs", "mountPath": "//proc"}]}, "contains //. Write the path without it"),
    (
        {"volumeMounts": [{"name": "logs", "mountPath": path} for path in ("/a", "/a/")]},
        'mountPath "/a" appears twice',
    ),
    ({"ports": [{"containerPort": 8080}]}, 'port "8080" is used by the main'),
    ({"ports": [{"name": "http", "containerPort": 9}]}, 'port "http" is used by the main'),
    ({"ports": [{"containerPort": 9}, {"containerPort": 9}]}, 'port "9" appears twice'),
    ({"ports": [{"containerPort": 0}]}, "field ports.0.containerPort"),
    ({"readinessProbe": {"httpGet": {"port": 9, "host": "10.0.0.1"}}}, "field readinessProbe.httpGet.host"),
    ({"livenessProbe": {"periodSeconds": 5}}, "livenessProbe must have exactly one of exec, httpGet, tcpSocket"),
]


@pytest.mark.parametrize(("change", "words"), SIDECARS_REFUSED)
def test_sidecars_have_fields_of_the_list_alone_and_take_nothing_of_ours(change: Json, words: str) -> None:
    (problem,) = problems(sidecars=[{**FETCH, **change}])
    assert problem.startswith("spec.broker.pod.sidecars ")
    assert words in problem


@pytest.mark.parametrize("path", ["/system", "/processed", "/devices", "/a/proc", "/a/..b", "/usr/bin"])
def test_sidecars_may_mount_what_is_only_called_like_the_kernels(path: str) -> None:
    """Their image is the user's."""
    assert problems(sidecars=[{**FETCH, "volumeMounts": [{"name": "logs", "mountPath": path}]}]) == []


def test_init_containers_have_no_ports_and_share_their_names_with_sidecars() -> None:
    (problem,) = problems(initContainers=[{**FETCH, "ports": [{"containerPort": 9}]}])
    assert 'spec.broker.pod.initContainers "fetch" has field ports, which is not allowed' in problem
    (problem,) = problems(initContainers=[FETCH], sidecars=[FETCH])
    assert 'name "fetch" appears twice' in problem


def test_values_of_containers_that_are_refused_are_not_repeated() -> None:
    (problem,) = problems(sidecars=[{**FETCH, "args": {"token": "hush"}}])
    assert "hush" not in problem


def test_an_annotated_identity_is_the_components_own() -> None:
    annotations = {"iam.gke.io/gcp-service-account": "offload@x"}
    rendered = render_cluster(inputs(distributed(broker={"pod": {"serviceAccountAnnotations": annotations}})))
    account = rendered.of(Component.BROKER)[0]
    assert (account["kind"], account["metadata"]["name"]) == ("ServiceAccount", "my-broker")
    assert account["metadata"]["annotations"] == annotations
    assert account["automountServiceAccountToken"] is False
    names = {c: of_kind(m, "StatefulSet")["spec"]["template"]["spec"] for c, m in rendered.ordered()}
    assert names[Component.BROKER]["serviceAccountName"] == "my-broker"
    assert names[Component.BOOKIE]["serviceAccountName"] == "my-pulsar"


def test_a_configuration_store_annotates_the_identity_it_has() -> None:
    store = ManagedZooKeeper.model_validate({"pod": {"serviceAccountAnnotations": {"a": "b"}}})
    manifests = render_configuration_store(
        owner("geo", Kind.INSTANCE), store, image="zk:1", super_digest_secret="s"
    ).manifests
    (account,) = [m for m in manifests if m["kind"] == "ServiceAccount"]
    assert account["metadata"]["annotations"] == {"a": "b"}
    pod = of_kind(manifests, "StatefulSet")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["metadata"]["name"]


@given(SPECS)
def test_the_ports_of_every_main_container_are_known_to_the_check(spec: PulsarClusterSpec) -> None:
    for component, manifests in render_cluster(inputs(spec)).ordered():
        ports = container(manifests)["ports"]
        assert {port["name"]: port["containerPort"] for port in ports} == SERVED[component].ports
