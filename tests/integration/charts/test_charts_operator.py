"""What helm/pulsar-operator renders."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from pulsar_operator.settings import PREFIX, load
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.helm import OPERATOR_CHART, Helm, HelmError, for_people, is_hook, of_kind, pod_specs
from tests.support.yamls import document

Json = dict[str, Any]

EVERYTHING: Json = {
    "watchNamespaces": ["a", "b"],
    "upgradePaths": ["4.0.8 -> 4.0.9", "4.0.9 <-> 4.0.10"],
    "image": {"tag": "7", "pullSecrets": [{"name": "pull"}], "pullPolicy": "Always"},
    "metrics": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prom"}},
        "podMonitor": {"enabled": True, "interval": "7s", "labels": {"release": "prom"}},
    },
    "podLabels": {"team": "x", "app.kubernetes.io/name": "not-this"},
    "podAnnotations": {"note": "y"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high",
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "serviceAccount": {"annotations": {"role": "z"}},
}
VARIANTS: dict[str, Json] = {
    "default": {},
    "everything": EVERYTHING,
    "cluster-scope": {"clusterScope": True},
    "bare": {
        "crds": {"install": False},
        "rbac": {"create": False},
        "serviceAccount": {"create": False, "name": "mine"},
        "metrics": {"service": {"enabled": False}},
        "uninstall": {"releaseFinalizers": False},
        "deletionGuard": {"enabled": False},
        "replicationWarnings": {"enabled": False},
        "retentionWarnings": {"enabled": False},
        "configCheck": {"enabled": False},
    },
}


def cluster_roles(objects: list[Json]) -> list[Json]:
    """ClusterRoles of the operator and its hook."""
    return [obj for obj in of_kind(objects, "ClusterRole") if not for_people(obj)]


def roles(objects: list[Json], *, hooks: bool) -> list[Json]:
    return [obj for obj in of_kind(objects, "Role") + cluster_roles(objects) if is_hook(obj) is hooks]


@pytest.fixture(params=VARIANTS, name="variant")
def _variant(request: pytest.FixtureRequest) -> Json:
    return VARIANTS[request.param]


def test_lint(helm: Helm, variant: Json) -> None:
    assert "0 chart(s) failed" in helm.lint(OPERATOR_CHART, variant)


def test_pods_are_restricted(helm: Helm, variant: Json) -> None:
    """Pod Security Standard restricted, and beyond it: uid, read-only root, no service links."""
    found = list(pod_specs(helm.template(OPERATOR_CHART, variant)))
    assert found
    for name, spec in found:
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["runAsUser"] == 10000, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert spec["enableServiceLinks"] is False, name
        assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(spec), name
        assert [volume for volume in spec["volumes"] if set(volume) != {"name", "emptyDir"}] == [], name
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["readOnlyRootFilesystem"] is True, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"], name
            assert container["resources"]["limits"]["memory"] == "384Mi", name


def test_pod_security_admission_takes_the_pods(helm: Helm, apiserver: ApiServer, variant: Json) -> None:
    """The API server's own judgement of Pod Security Standard restricted."""
    namespace = apiserver.new_namespace(labels={"pod-security.kubernetes.io/enforce": "restricted"})
    for _, spec in pod_specs(helm.template(OPERATOR_CHART, variant)):
        # The priority class does not exist on this server.
        pod = {key: value for key, value in spec.items() if key != "priorityClassName"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod}
        answer = apiserver.request(
            "POST", f"/api/v1/namespaces/{namespace}/pods", body, query={"dryRun": "All", "fieldValidation": "Strict"}
        )
        assert answer.code == 201, answer.message


def test_no_wildcard_anywhere(helm: Helm, variant: Json) -> None:
    objects = helm.template(OPERATOR_CHART, variant)
    for role in of_kind(objects, "Role") + of_kind(objects, "ClusterRole"):
        for rule in role["rules"]:
            for field in ("apiGroups", "resources", "verbs"):
                assert not any("*" in entry for entry in rule[field]), role["metadata"]["name"]
            assert "pods/exec" not in rule["resources"]


def test_one_role_and_binding_per_namespace(helm: Helm) -> None:
    objects = helm.template(OPERATOR_CHART, {"watchNamespaces": ["a", "b", "ops"]})
    wide = cluster_roles([o for o in objects if not is_hook(o)])
    # Only our own kinds and a look at a namespace, so that a deleted one can end although its RoleBinding goes first.
    rights = {(group, tuple(rule["verbs"])) for role in wide for rule in role["rules"] for group in rule["apiGroups"]}
    assert {right for right in rights if right[0] != "pulsaroperator.io"} == {("", ("get",))}
    narrow = helm.template(OPERATOR_CHART, {"watchNamespaces": ["a"], "rbac": {"customResourcesClusterWide": False}})
    assert cluster_roles([o for o in narrow if not is_hook(o)]) == []
    for kind in ("Role", "RoleBinding"):
        places = [o["metadata"]["namespace"] for o in of_kind(objects, kind) if "lease" not in o["metadata"]["name"]]
        assert sorted(places) == ["a", "b", "ops"], kind
    for binding in of_kind(objects, "RoleBinding"):
        assert binding["subjects"][0]["namespace"] == "ops"
    assert environment(objects)["WATCH_NAMESPACES"] == "ops,a,b"


def test_default_is_the_release_namespace(helm: Helm) -> None:
    objects = helm.template(OPERATOR_CHART)
    assert cluster_roles(objects) == of_kind(objects, "ClusterRoleBinding") == []
    assert {o["metadata"]["namespace"] for o in of_kind(objects, "Role")} == {"ops"}
    assert environment(objects)["WATCH_NAMESPACES"] == "ops"


def test_cluster_scope(helm: Helm) -> None:
    objects = [o for o in helm.template(OPERATOR_CHART, {"clusterScope": True}) if not is_hook(o)]
    assert [o["metadata"]["name"] for o in cluster_roles(objects)] == ["ops-rel-pulsar-operator"]
    assert len(of_kind(objects, "ClusterRoleBinding")) == 1
    assert [o["metadata"]["name"] for o in of_kind(objects, "Role")] == ["rel-pulsar-operator-lease"]
    assert environment(objects)["WATCH_NAMESPACES"] == ""


def test_every_scope_has_the_same_rules(helm: Helm) -> None:
    wide = roles(helm.template(OPERATOR_CHART, {"clusterScope": True}), hooks=False)
    narrow = roles(helm.template(OPERATOR_CHART, {"watchNamespaces": ["a"]}), hooks=False)
    narrow = [role for role in narrow if role["kind"] == "Role"]
    rules = {yaml.safe_dump(role["rules"]) for role in wide + narrow if not role["metadata"]["name"].endswith("lease")}
    assert len(rules) == 1


def environment(objects: list[Json], kind: str = "Deployment") -> dict[str, str]:
    """The settings a pod gets, without the prefix."""
    (obj,) = of_kind(objects, kind)
    entries = obj["spec"]["template"]["spec"]["containers"][0]["env"]
    return {
        e["name"].removeprefix(PREFIX): e.get("value", "from-the-pod") for e in entries if e["name"].startswith(PREFIX)
    }


@pytest.mark.parametrize(
    ("values", "watched"),
    [({}, ("ops",)), ({"watchNamespaces": ["a"]}, ("ops", "a")), ({"clusterScope": True}, ())],
)
@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_operator_accepts_its_environment(helm: Helm, kind: str, values: Json, watched: tuple[str, ...]) -> None:
    settings = load({PREFIX + k: v for k, v in environment(helm.template(OPERATOR_CHART, values), kind).items()})
    assert settings.watch_namespaces == watched


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_upgrade_paths_reach_the_operator(helm: Helm, kind: str) -> None:
    """The hook reads the same settings, and refuses those that it does not know."""
    for values, pairs in (
        ({}, set()),
        (EVERYTHING, {("4.0.8", "4.0.9"), ("4.0.9", "4.0.10"), ("4.0.10", "4.0.9")}),
    ):
        found = {PREFIX + k: v for k, v in environment(helm.template(OPERATOR_CHART, values), kind).items()}
        assert load(found).upgrade_paths.pairs == pairs


def test_deployment(helm: Helm) -> None:
    (deployment,) = of_kind(helm.template(OPERATOR_CHART, EVERYTHING), "Deployment")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    pod = deployment["spec"]["template"]
    assert pod["metadata"]["labels"]["team"] == "x"
    assert pod["metadata"]["annotations"]["note"] == "y"
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert selector.items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    assert pod["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert pod["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert pod["spec"]["affinity"] == {"nodeAffinity": {}}
    assert pod["spec"]["priorityClassName"] == "high"
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "pulsar-operator:7"
    assert container["imagePullPolicy"] == "Always"
    assert {"name": "HTTPS_PROXY", "value": "http://proxy:3128"} in container["env"]
    assert {p["name"]: p["containerPort"] for p in container["ports"]} == {"health": 8080, "metrics": 9090}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}


def test_image_tag_is_the_version_of_the_operator(helm: Helm) -> None:
    (deployment,) = of_kind(helm.template(OPERATOR_CHART), "Deployment")
    version = yaml.safe_load((OPERATOR_CHART / "Chart.yaml").read_text())["appVersion"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == f"pulsar-operator:{version}"
    digest = "sha256:" + "a" * 64
    (deployment,) = of_kind(helm.template(OPERATOR_CHART, {"image": {"digest": digest}}), "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == f"pulsar-operator@{digest}"


def test_metrics_service_selects_the_operator_only(helm: Helm) -> None:
    objects = helm.template(OPERATOR_CHART, EVERYTHING)
    (service,) = of_kind(objects, "Service")
    (deployment,) = of_kind(objects, "Deployment")
    (job,) = of_kind(objects, "Job")
    selector = service["spec"]["selector"].items()
    assert selector <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert not selector <= job["spec"]["template"]["metadata"]["labels"].items()
    (monitor,) = of_kind(objects, "ServiceMonitor")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["metadata"]["labels"]["release"] == "prom"
    (monitor,) = of_kind(objects, "PodMonitor")
    template = deployment["spec"]["template"]
    selector = monitor["spec"]["selector"]["matchLabels"].items()
    assert selector <= template["metadata"]["labels"].items()
    assert not selector <= job["spec"]["template"]["metadata"]["labels"].items()
    assert monitor["metadata"]["labels"]["release"] == "prom"
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["interval"] == "7s"
    assert endpoint["port"] in [port["name"] for port in template["spec"]["containers"][0]["ports"]]


def test_monitors_are_off_by_default(helm: Helm) -> None:
    assert [o["kind"] for o in helm.template(OPERATOR_CHART) if o["kind"].endswith("Monitor")] == []


def test_definitions_are_kept_and_unchanged(helm: Helm) -> None:
    rendered = {o["metadata"]["name"]: o for o in of_kind(helm.template(OPERATOR_CHART), "CustomResourceDefinition")}
    copies = sorted((OPERATOR_CHART / "files" / "crds").glob("*.yaml"))  # identical to crds/: test_charts_sync.py
    originals = [document(file.read_text()) for file in copies]
    assert originals
    assert set(rendered) == {crd["metadata"]["name"] for crd in originals}
    for crd in originals:
        found = rendered[crd["metadata"]["name"]]
        assert found["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
        assert found == crd


def test_definitions_are_not_reformatted(helm: Helm) -> None:
    """Parsed and printed by helm, 2147483647 would become 2.147483647e+09, which the API server refuses."""
    text = helm.text(OPERATOR_CHART)
    assert not re.search(r"\d[eE]\+\d", text)
    assert "maximum: 2147483647" in text


def test_definitions_can_be_left_out(helm: Helm) -> None:
    assert of_kind(helm.template(OPERATOR_CHART, {"crds": {"install": False}}), "CustomResourceDefinition") == []


def test_uninstall_hook(helm: Helm) -> None:
    objects = [o for o in helm.template(OPERATOR_CHART) if is_hook(o)]
    assert sorted(o["kind"] for o in objects) == ["Job", "Role", "Role", "RoleBinding", "RoleBinding", "ServiceAccount"]
    for obj in objects:
        annotations = obj["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "post-delete"
        assert annotations["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
    weights = {o["kind"]: int(o["metadata"]["annotations"]["helm.sh/hook-weight"]) for o in objects}
    assert weights["Role"] < weights["RoleBinding"] < weights["Job"]
    assert weights["ServiceAccount"] < weights["Job"]
    (job,) = of_kind(objects, "Job")
    spec = job["spec"]
    assert spec["backoffLimit"] <= 3
    assert spec["activeDeadlineSeconds"] < 300, "helm itself waits 300 s"
    (container,) = spec["template"]["spec"]["containers"]
    assert container["args"] == ["release-finalizers", "--wait=120"]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    (account,) = of_kind(objects, "ServiceAccount")
    assert spec["template"]["spec"]["serviceAccountName"] == account["metadata"]["name"]


@pytest.mark.parametrize("values", [{"watchNamespaces": ["a"]}, {"clusterScope": True}])
def test_uninstall_hook_needs_no_watched_namespace_to_exist(helm: Helm, values: Json) -> None:
    """A Role in a namespace that was deleted first would make the whole hook fail."""
    objects = [o for o in helm.template(OPERATOR_CHART, values) if is_hook(o)]
    assert {o["metadata"].get("namespace", "ops") for o in objects} == {"ops"}
    (role,) = of_kind(objects, "ClusterRole")
    assert {group for rule in role["rules"] for group in rule["apiGroups"]} == {"pulsaroperator.io"}
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "patch"}


def test_uninstall_hook_can_be_left_out(helm: Helm) -> None:
    objects = helm.template(OPERATOR_CHART, {"uninstall": {"releaseFinalizers": False}})
    assert [o for o in objects if is_hook(o)] == []


def test_nothing_is_left_when_all_is_switched_off(helm: Helm) -> None:
    objects = helm.template(OPERATOR_CHART, VARIANTS["bare"])
    assert [o["kind"] for o in objects] == ["Deployment"]
    assert objects[0]["spec"]["template"]["spec"]["serviceAccountName"] == "mine"


def test_releases_of_one_name_can_watch_one_namespace(helm: Helm) -> None:
    names = {
        role["metadata"]["name"]
        for namespace in ("one", "two")
        for role in of_kind(helm.template(OPERATOR_CHART, {"watchNamespaces": ["x"]}, namespace=namespace), "Role")
        if role["metadata"]["namespace"] == "x"
    }
    assert len(names) == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"watchNamespace": ["a"]}, "additional properties 'watchNamespace' not allowed"),
        ({"image": {"tags": "x"}}, "additional properties 'tags' not allowed"),
        ({"image": {"tag": 7}}, "at '/image/tag': got number, want string"),
        ({"watchNamespaces": ["A"]}, "at '/watchNamespaces/0'"),
        ({"watchNamespaces": ["a", "a"]}, "at '/watchNamespaces'"),
        ({"upgradePaths": ["4.0.8"]}, "at '/upgradePaths/0'"),
        ({"upgradePaths": "4.0.8 -> 4.0.9"}, "at '/upgradePaths': got string, want array"),
        ({"operator": {"workers": 0}}, "at '/operator/workers'"),
        ({"operator": {"logLevel": "Loud"}}, "at '/operator/logLevel'"),
        ({"clusterScope": "yes"}, "at '/clusterScope': got string, want boolean"),
        ({"clusterScope": True, "watchNamespaces": ["a"]}, "watchNamespaces must be empty"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name must be set"),
        ({"extraEnv": [{"name": "PULSAR_OPERATOR_WORKERS", "value": "1"}]}, "settings of the operator have their own"),
    ],
)
def test_wrong_values_are_refused(helm: Helm, values: Json, message: str) -> None:
    with pytest.raises(HelmError) as refused:
        helm.template(OPERATOR_CHART, values)
    assert message in str(refused.value)
