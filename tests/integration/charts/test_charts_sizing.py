"""The collector and the sizing job of helm/pulsar, against the programs they start and a real API server."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest
import yaml

from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.domain.render import render_cluster
from pulsar_operator.domain.render.cluster import CAPACITIES_KEY, capacities_name
from pulsar_sizing import settings
from pulsar_sizing.job.cli import parser, request_of, settings_of
from pulsar_sizing.place import S3
from tests.support.cluster.rendering import inputs
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.helm import PULSAR_CHART, Helm, HelmError, of_kind, pod_specs

Json = dict[str, Any]

ON: Json = {"sizing": {"enabled": True}}
K8S: Json = {
    "sizing": {
        "enabled": True,
        "image": {"tag": "dev", "pullSecrets": [{"name": "pull"}]},
        "storage": {"credentialsSecret": "keys"},
        "job": {
            "master": "k8s://https://kubernetes.default.svc",
            "conf": {"spark.executor.instances": 2, "spark.kubernetes.executor.disableConfigMap": "false"},
        },
    }
}
URL: Json = {"sizing": {"enabled": True, "storage": {"url": "s3://bucket/traffic", "s3Endpoint": "http://s3:9000"}}}
SCALED: Json = {
    "sizing": {
        "enabled": True,
        "storage": {
            **URL["sizing"]["storage"],
            "s3Region": "eu-west-1",
            "s3Addressing": "virtual",
            "credentialsSecret": "keys",
        },
        "serviceAccount": {"create": True, "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/sizing"}},
        "job": {
            "master": "k8s://https://kubernetes.default.svc",
            "executors": {"instances": 4, "cores": 2, "memory": "3g", "memoryOverhead": "2g"},
            "eventLog": "s3://bucket/events",
        },
    }
}
"""Executors in pods, every table in an object store, with an identity of their own."""
IN_PODS = {"kubernetes": K8S, "scaled": SCALED}
VARIANTS = {"volume": ON, "url": URL, "kept": {**ON, "keepOnUninstall": True}, **IN_PODS}
COLLECTIONS = {
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Service": "/api/v1/namespaces/{}/services",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "CronJob": "/apis/batch/v1/namespaces/{}/cronjobs",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
}


def rendered(helm: Helm, values: Json, *, release: str = "demo", namespace: str = "ops") -> list[Json]:
    """What the chart renders for sizing."""
    objects = helm.template(PULSAR_CHART, values, release=release, namespace=namespace)
    return [obj for obj in objects if obj["kind"] in COLLECTIONS]


def one(objects: list[Json], kind: str) -> Json:
    (found,) = of_kind(objects, kind)
    return found


def collector_pod(objects: list[Json]) -> Json:
    pod: Json = one(objects, "Deployment")["spec"]["template"]["spec"]
    return pod


def job_pod(objects: list[Json]) -> Json:
    pod: Json = one(objects, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return pod


def executor_pod(objects: list[Json]) -> Json:
    pod: Json = yaml.safe_load(one(objects, "ConfigMap")["data"]["executor.yaml"])
    return pod


def arguments(pod: Json) -> list[str]:
    found: list[str] = pod["containers"][0]["args"]
    return found


def collector_settings(objects: list[Json]) -> settings.Settings:
    """As the program itself reads them, without a word left over."""
    command, *given = arguments(collector_pod(objects))
    assert command == "collect"
    reader = argparse.ArgumentParser()
    settings.add_arguments(reader)
    return settings.load(reader.parse_args(given), {})


def test_nothing_unless_enabled(helm: Helm) -> None:
    assert rendered(helm, {}) == []


@pytest.mark.parametrize("name", VARIANTS)
def test_lint(helm: Helm, name: str) -> None:
    assert "0 chart(s) failed" in helm.lint(PULSAR_CHART, VARIANTS[name])


@pytest.mark.parametrize("name", VARIANTS)
def test_objects_are_accepted(helm: Helm, apiserver: ApiServer, namespace: str, name: str) -> None:
    objects = rendered(helm, VARIANTS[name], namespace=namespace)
    assert objects
    for obj in objects:
        answer = apiserver.request(
            "POST",
            COLLECTIONS[obj["kind"]].format(namespace),
            obj,
            query={"fieldValidation": "Strict", "dryRun": "All"},
        )
        assert answer.code == 201, answer.message


@pytest.mark.parametrize("name", VARIANTS)
def test_pods_are_restricted(helm: Helm, apiserver: ApiServer, name: str) -> None:
    """By the API server's own judgement of Pod Security Standard restricted."""
    namespace = apiserver.new_namespace(labels={"pod-security.kubernetes.io/enforce": "restricted"})
    objects = rendered(helm, VARIANTS[name], namespace=namespace)
    pods = [collector_pod(objects), job_pod(objects)]
    if name in IN_PODS:
        executor = executor_pod(objects)["spec"]
        executor["containers"][0]["image"] = "spark-says-which"
        pods.append(executor)
        # Admission asks for the accounts, which a dry run did not make.
        for account in of_kind(objects, "ServiceAccount"):
            path = COLLECTIONS["ServiceAccount"].format(namespace)
            assert apiserver.request("POST", path, account).code == 201
    for pod in pods:
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod}
        answer = apiserver.request(
            "POST", f"/api/v1/namespaces/{namespace}/pods", body, query={"dryRun": "All", "fieldValidation": "Strict"}
        )
        assert answer.code == 201, answer.message
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        assert mounts == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize(
    ("values", "instance", "cluster"),
    [
        ({}, "demo", "demo"),
        ({"instance": {"name": "shop"}, "cluster": {"name": "east"}}, "shop", "east"),
        ({"cluster": {"name": "east", "spec": {"clusterName": "us-east"}}}, "demo", "us-east"),
    ],
)
def test_the_service_is_where_the_operator_looks(helm: Helm, values: Json, instance: str, cluster: str) -> None:
    objects = rendered(helm, {**ON, **values})
    service, deployment = one(objects, "Service"), one(objects, "Deployment")
    assert (service["metadata"]["name"], service["metadata"]["namespace"]) == (f"{instance}-sizing", "ops")
    assert [port["port"] for port in service["spec"]["ports"]] == [8080]
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    found = collector_settings(objects)
    assert (found.instance, list(found.clusters())) == (instance, [cluster])
    (container,) = collector_pod(objects)["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": found.address()[1]}]


def test_pods_of_the_job_are_not_behind_the_service(helm: Helm) -> None:
    objects = rendered(helm, K8S)
    selector = one(objects, "Service")["spec"]["selector"].items()
    template = one(objects, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]
    for labels in (template["metadata"]["labels"], executor_pod(objects)["metadata"]["labels"]):
        assert not selector <= labels.items()


@pytest.mark.parametrize(
    "spec", [{}, {"proxy": {"replicas": 0}}, {"clusterDomain": "k8s.example"}, {"mode": "Standalone"}]
)
def test_brokers_are_asked_and_not_proxies(helm: Helm, spec: Json) -> None:
    values: Json = {**ON, "cluster": {"name": "c", "spec": spec}}
    (cluster,) = of_kind(helm.template(PULSAR_CHART, values, namespace="ns"), "PulsarCluster")
    endpoints = render_cluster(inputs(PulsarClusterSpec.model_validate(cluster["spec"]), name="c")).endpoints
    found = collector_settings(rendered(helm, values, namespace="ns"))
    assert found.clusters() == {"c": (endpoints.broker_web_service_url,)}


def test_without_authentication_the_collector_has_no_token(helm: Helm) -> None:
    pod = collector_pod(rendered(helm, ON))
    assert "token" not in str(pod["volumes"]) and collector_settings(rendered(helm, ON)).token_file is None


@pytest.mark.parametrize(
    ("values", "audience"),
    [
        ({"instance": {"spec": {"authentication": {"serviceAccountTokens": {}}}}}, "pulsaroperator.io/ops/demo"),
        ({"sizing": {"enabled": True, "collector": {"tokenAudience": "other"}}}, "other"),
    ],
)
def test_with_authentication_it_sends_its_token_to_brokers_alone(helm: Helm, values: Json, audience: str) -> None:
    objects = rendered(helm, {**ON, **values})
    (volume,) = [each for each in collector_pod(objects)["volumes"] if each["name"] == "pulsar-token"]
    token = {"audience": audience, "expirationSeconds": 3600, "path": "token"}
    assert volume["projected"]["sources"] == [{"serviceAccountToken": token}]
    (mount,) = [
        each for each in collector_pod(objects)["containers"][0]["volumeMounts"] if each["name"] == "pulsar-token"
    ]
    found = collector_settings(objects)
    assert found.token_file == f"{mount['mountPath']}/token"
    assert found.token_host == (".demo-broker-headless.ops.svc.cluster.local",)


def test_collector_and_job_share_one_place(helm: Helm) -> None:
    values: Json = {
        "sizing": {
            "enabled": True,
            "job": {"windowDays": 3, "minCoverageHours": 5, "percentile": 99.5, "growth": 2, "capacity": 2e8},
        }
    }
    objects = rendered(helm, values)
    job = job_pod(objects)
    given = parser({}).parse_args(arguments(job))
    request = request_of(given)
    collector = collector_settings(objects)
    assert request.min_coverage_hours == 5
    assert (request.window_days, request.percentile, request.growth, request.capacity) == (3, 99.5, 2, 2e8)
    assert request_of(parser({}).parse_args(arguments(job_pod(rendered(helm, ON))))).capacity is None
    assert given.command == "size"
    assert (given.instance, [given.cluster], given.root) == (
        collector.instance,
        list(collector.clusters()),
        collector.root,
    )
    assert given.master == "local[*]" and settings_of(given.conf) == {}
    claim = one(objects, "PersistentVolumeClaim")["metadata"]["name"]
    for pod in (collector_pod(objects), job):
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        mounts = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        assert volumes[mounts[given.root]]["persistentVolumeClaim"] == {"claimName": claim}
        assert "emptyDir" in volumes[mounts["/tmp"]]
    assert given.scratch == "/tmp"


def test_with_a_url_there_is_no_volume(helm: Helm) -> None:
    objects = rendered(helm, URL)
    assert of_kind(objects, "PersistentVolumeClaim") == []
    for pod in (collector_pod(objects), job_pod(objects)):
        assert [volume["name"] for volume in pod["volumes"]] == ["tmp"]
        assert "affinity" not in pod
        assert {"--root=s3://bucket/traffic", "--s3-endpoint=http://s3:9000"} <= set(arguments(pod))


def test_how_the_object_store_is_reached_is_one_for_collector_and_job(helm: Helm) -> None:
    objects = rendered(helm, SCALED)
    job = parser({}).parse_args(arguments(job_pod(objects)))
    collector = collector_settings(objects)
    assert collector.s3 == S3("http://s3:9000", "eu-west-1", "virtual")
    assert (job.s3_endpoint, job.s3_region, job.s3_addressing) == ("http://s3:9000", "eu-west-1", "virtual")
    assert (job.root, job.event_log) == ("s3://bucket/traffic", "s3://bucket/events")
    for pod in (collector_pod(objects), job_pod(objects), executor_pod(objects)["spec"]):
        assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": "keys"}}]


def test_executors_beside_an_object_store_run_on_any_node_without_a_claim(helm: Helm) -> None:
    objects = rendered(helm, SCALED)
    assert of_kind(objects, "PersistentVolumeClaim") == []
    executor = executor_pod(objects)
    assert [list(volume) for volume in executor["spec"]["volumes"]] == [["name", "emptyDir"]]
    assert "affinity" not in executor["spec"]
    (spread,) = executor["spec"]["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    assert spread["labelSelector"]["matchLabels"].items() <= executor["metadata"]["labels"].items()
    strict = json.loads(json.dumps(SCALED))
    strict["sizing"]["job"]["executors"]["whenUneven"] = "DoNotSchedule"
    (spread,) = executor_pod(rendered(helm, strict))["spec"]["topologySpreadConstraints"]
    assert spread["whenUnsatisfiable"] == "DoNotSchedule"
    on_volume = executor_pod(rendered(helm, K8S))["spec"]
    assert "topologySpreadConstraints" not in on_volume, "a volume of one node keeps them together"


def test_amounts_of_executors_are_values_and_settings_win(helm: Helm) -> None:
    def amounts(values: Json) -> dict[str, str]:
        conf = settings_of(parser({}).parse_args(arguments(job_pod(rendered(helm, values)))).conf)
        prefix = "spark.executor."
        return {name.removeprefix(prefix): value for name, value in conf.items() if name.startswith(prefix)}

    assert amounts(SCALED) == {"instances": "4", "cores": "2", "memory": "3g", "memoryOverhead": "2g"}
    changed = json.loads(json.dumps(SCALED))
    changed["sizing"]["job"]["conf"] = {"spark.executor.memory": "5g"}
    assert amounts(changed)["memory"] == "5g"
    assert amounts(URL) == {}, "the job's own pod has no executors"


def test_an_identity_of_their_own(helm: Helm) -> None:
    """An identity of a cloud is given to a ServiceAccount; only the job's may make pods."""
    objects = rendered(helm, SCALED)
    accounts = {each["metadata"]["name"]: each["metadata"] for each in of_kind(objects, "ServiceAccount")}
    assert set(accounts) == {"demo-sizing", "demo-sizing-job"}
    for each in accounts.values():
        assert each["annotations"] == SCALED["sizing"]["serviceAccount"]["annotations"]
    pods = {"collector": collector_pod(objects), "executor": executor_pod(objects)["spec"], "job": job_pod(objects)}
    named = {name: (pod["serviceAccountName"], pod["automountServiceAccountToken"]) for name, pod in pods.items()}
    assert named["collector"] == named["executor"] == ("demo-sizing", False)
    assert named["job"] == ("demo-sizing-job", True)
    local = json.loads(json.dumps(SCALED))
    local["sizing"]["job"]["master"] = "local[*]"
    objects = rendered(helm, local)
    assert job_pod(objects)["serviceAccountName"] == "demo-sizing"
    assert [each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")] == ["demo-sizing"]


@pytest.mark.parametrize(("mode", "together"), [("ReadWriteOnce", True), ("ReadWriteMany", False)])
def test_a_volume_of_one_node_keeps_the_job_there(helm: Helm, mode: str, together: bool) -> None:
    values = json.loads(json.dumps(K8S))
    values["sizing"]["storage"]["accessMode"] = mode
    objects = rendered(helm, values)
    assert one(objects, "PersistentVolumeClaim")["spec"]["accessModes"] == [mode]
    labels = one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert "affinity" not in collector_pod(objects), "nothing to be beside at the first start"
    for pod in (job_pod(objects), executor_pod(objects)["spec"]):
        assert ("affinity" in pod) is together
        if together:
            (term,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            assert term["topologyKey"] == "kubernetes.io/hostname"
            assert term["labelSelector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ({}, True),
        ({"keepOnUninstall": True}, True),
        ({"cluster": {"spec": {"reclaimPolicy": "Delete"}}}, False),
        ({"keepOnUninstall": True, "cluster": {"spec": {"reclaimPolicy": "Delete"}}}, True),
    ],
)
def test_recorded_traffic_outlives_the_release_as_the_cluster_s_data_does(helm: Helm, values: Json, kept: bool) -> None:
    objects = rendered(helm, {**ON, **values})
    kinds = [o["kind"] for o in objects if (o["metadata"].get("annotations") or {}).get("helm.sh/resource-policy")]
    assert kinds == (["PersistentVolumeClaim"] if kept else [])


def test_no_rights_without_executors_in_pods(helm: Helm) -> None:
    objects = rendered(helm, ON)
    assert {obj["kind"] for obj in objects} == {"PersistentVolumeClaim", "Service", "Deployment", "CronJob"}
    for pod in (collector_pod(objects), job_pod(objects)):
        assert pod["automountServiceAccountToken"] is False
        assert "serviceAccountName" not in pod


def test_executors_in_pods(helm: Helm) -> None:
    objects = rendered(helm, K8S)
    job = job_pod(objects)
    (rule,) = one(objects, "Role")["rules"]
    assert (rule["apiGroups"], rule["resources"]) == ([""], ["pods"])
    assert set(rule["verbs"]) == {"get", "list", "watch", "create", "delete", "deletecollection"}
    (subject,) = one(objects, "RoleBinding")["subjects"]
    account = one(objects, "ServiceAccount")["metadata"]["name"]
    assert subject["name"] == job["serviceAccountName"] == account
    assert job["automountServiceAccountToken"] is True
    assert collector_pod(objects)["automountServiceAccountToken"] is False
    executor = executor_pod(objects)["spec"]
    assert executor["automountServiceAccountToken"] is False
    assert executor["containers"][0]["envFrom"] == [{"secretRef": {"name": "keys"}}]

    given = parser({}).parse_args(arguments(job))
    conf = settings_of(given.conf)
    assert given.master == "k8s://https://kubernetes.default.svc"
    assert conf["spark.kubernetes.container.image"] == "pulsar-sizing:dev" == job["containers"][0]["image"]
    assert conf["spark.kubernetes.namespace"] == "ops"
    assert conf["spark.executor.instances"] == "2"
    # The two it would delete at the end without a right to.
    assert conf["spark.kubernetes.driver.service.deleteOnTermination"] == "false"
    assert conf["spark.kubernetes.driver.ownPersistentVolumeClaim"] == "false"
    assert conf["spark.kubernetes.executor.disableConfigMap"] == "false", "the user's word is the last"
    known = {each["name"] for each in job["containers"][0]["env"] if "fieldRef" in each["valueFrom"]}
    assert {conf["spark.driver.host"], conf["spark.kubernetes.driver.pod.name"]} == {f"$({name})" for name in known}
    folder, _, file = conf["spark.kubernetes.executor.podTemplateFile"].rpartition("/")
    (mount,) = (m for m in job["containers"][0]["volumeMounts"] if m["mountPath"] == folder)
    (volume,) = (v for v in job["volumes"] if v["name"] == mount["name"])
    config = one(objects, "ConfigMap")
    assert volume["configMap"]["name"] == config["metadata"]["name"] and file in config["data"]


@pytest.mark.parametrize("values", [ON, K8S, {**ON, "cluster": {"name": "east"}}])
def test_the_job_is_told_the_size_of_brokers_as_the_operator_writes_it(helm: Helm, values: Json) -> None:
    objects = helm.template(PULSAR_CHART, values, release="demo", namespace="ops")
    (cluster,) = of_kind(objects, "PulsarCluster")
    job = job_pod(objects)
    told = {each["name"]: each["valueFrom"].get("configMapKeyRef") for each in job["containers"][0]["env"]}
    reference = {"name": capacities_name(cluster["metadata"]["name"]), "key": CAPACITIES_KEY, "optional": True}
    assert told["PULSAR_SIZING_CAPACITIES"] == reference
    env = {"PULSAR_SIZING_CAPACITIES": "east-broker-0=2,east-broker-1=1"}
    assert request_of(parser(env).parse_args(arguments(job))).capacities["east-broker-0"] == "2"


def test_runs_never_overlap_and_end(helm: Helm) -> None:
    spec = one(rendered(helm, ON), "CronJob")["spec"]
    assert (spec["schedule"], spec["concurrencyPolicy"]) == ("17 * * * *", "Forbid")
    job = spec["jobTemplate"]["spec"]
    assert (job["backoffLimit"], job["activeDeadlineSeconds"]) == (1, 3300)
    assert one(rendered(helm, ON), "Deployment")["spec"]["strategy"] == {"type": "Recreate"}


def test_every_pod_of_the_release_is_known(helm: Helm) -> None:
    """The pods above are all there are: a new one has to be judged by these tests too."""
    found = [name for name, _ in pod_specs(rendered(helm, K8S))]
    assert found == ["Deployment demo-sizing"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"instance": {"create": False, "name": "there", "namespace": "else"}},
            "install this release in namespace else",
        ),
        ({"instance": {"name": "a.b"}}, "the PulsarInstance needs a name of at most 45 characters"),
        ({"instance": {"name": "a" * 46}}, "the PulsarInstance needs a name of at most 45 characters"),
        ({"sizing": {"enabled": True, "collector": {"retentionDays": 6}}}, "retentionDays is 6, less than"),
        ({"sizing": {"enabled": True, "storage": {"s3Endpoint": "http://x:1"}}}, "an endpoint belongs to a URL s3://"),
        (
            {"sizing": {"enabled": True, "storage": {"url": "s3://b/x", "s3Addressing": "path"}}},
            "s3Addressing is path without sizing.storage.s3Endpoint",
        ),
        (
            {"sizing": {"enabled": True, "storage": {"url": "s3://b/x"}, "job": {"eventLog": "/data/events"}}},
            "with sizing.storage.url there is no volume",
        ),
        ({"sizing": {"enabled": True, "job": {"executors": {"memory": "2Gi"}}}}, "at '/sizing/job/executors/memory'"),
        ({"sizing": {"enabled": True, "storage": {"s3Addressing": "host"}}}, "at '/sizing/storage/s3Addressing'"),
        ({"sizing": {"enabled": True, "job": {"schedule": "hourly"}}}, "at '/sizing/job/schedule'"),
        ({"sizing": {"enabled": True, "job": {"master": "yarn"}}}, "at '/sizing/job/master'"),
        ({"sizing": {"enabled": True, "job": {"conf": {"executor": "1"}}}}, "at '/sizing/job/conf'"),
        ({"sizing": {"enabled": True, "collector": {"interval": 1}}}, "at '/sizing/collector'"),
    ],
)
def test_wrong_values_are_refused(helm: Helm, values: Json, message: str) -> None:
    with pytest.raises(HelmError) as refused:
        helm.template(PULSAR_CHART, {**ON, **values})
    assert message in str(refused.value)
