"""An operator that is uninstalled leaves a Pulsar that balances by itself again."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM, AdminEndpoint, Json, ResourceType, UnavailableError
from pulsar_operator.release import release_balancers

HELD = {
    "disabledFor": "pulsar/east-balancer",
    "saved": [
        {"name": "loadBalancerSheddingEnabled", "before": "true"},
        {"name": "loadBalancerAutoBundleSplitEnabled"},
    ],
}
ENDPOINTS = {"brokerWebServiceUrl": "http://east-broker.pulsar.svc:8080"}


def cluster(name: str, **status: Any) -> Json:
    return {"kind": "PulsarCluster", "metadata": {"namespace": "pulsar", "name": name}, "spec": {}, "status": status}


class Objects:
    """Clusters, and nothing else."""

    def __init__(self, *clusters: Json, installed: bool = True) -> None:
        self._clusters, self._installed = list(clusters), installed

    async def list(self, kind: ResourceType, namespace: str | None) -> list[Json]:
        assert (kind, namespace) == (CUSTOM[Kind.CLUSTER], None)
        return self._clusters

    async def installed(self, kind: ResourceType) -> bool:
        return self._installed


class Admin:
    """Takes calls down; some clusters do not answer."""

    def __init__(self, *silent: str) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._silent = silent

    async def call(self, endpoint: AdminEndpoint, method: str, path: tuple[str, ...], **_: Any) -> Any:
        if endpoint.cluster in self._silent:
            raise UnavailableError("no answer")
        self.calls.append((endpoint.url, method, *path))


async def released(objects: Objects, admin: Admin) -> list[str]:
    said: list[str] = []
    await release_balancers(objects, admin, said.append)  # type: ignore[arg-type]
    return said


async def test_settings_go_back_to_what_they_were() -> None:
    admin, url = Admin(), ENDPOINTS["brokerWebServiceUrl"]
    said = await released(Objects(cluster("east", balancer=HELD, endpoints=ENDPOINTS)), admin)
    assert admin.calls == [
        (url, "POST", "brokers", "configuration", "loadBalancerSheddingEnabled", "true"),
        (url, "DELETE", "brokers", "configuration", "loadBalancerAutoBundleSplitEnabled"),
    ]
    assert said == ["The settings of Pulsar's balancer in PulsarCluster pulsar/east were restored"]


@pytest.mark.parametrize(
    "objects",
    [
        Objects(cluster("east", endpoints=ENDPOINTS)),
        Objects(cluster("east", balancer=HELD)),
        Objects(cluster("east")),
        Objects(cluster("east", balancer=HELD, endpoints=ENDPOINTS), installed=False),
    ],
)
async def test_what_was_never_taken_over_is_not_touched(objects: Objects) -> None:
    admin = Admin()
    assert (await released(objects, admin), admin.calls) == ([], [])


async def test_brokers_that_do_not_answer_keep_nobody() -> None:
    """Their cluster may be gone; the others get theirs back."""
    admin = Admin("gone")
    objects = Objects(
        cluster("gone", balancer=HELD, endpoints=ENDPOINTS), cluster("east", balancer=HELD, endpoints=ENDPOINTS)
    )
    first, second = await released(objects, admin)
    assert "The settings of Pulsar's balancer in PulsarCluster pulsar/gone were NOT restored: no answer" in first
    assert "loadBalancerSheddingEnabled" in first
    assert "pulsar/east" in second and len(admin.calls) == 2


async def test_an_error_that_nobody_expects_keeps_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    admin, real = Admin(), Admin.call

    async def call(self: Admin, endpoint: AdminEndpoint, method: str, path: tuple[str, ...], **fields: Any) -> Any:
        if endpoint.cluster == "gone":
            raise KeyError("https://u:hunter2@h/")
        return await real(self, endpoint, method, path, **fields)

    monkeypatch.setattr(Admin, "call", call)
    objects = Objects(
        cluster("gone", balancer=HELD, endpoints=ENDPOINTS), cluster("east", balancer=HELD, endpoints=ENDPOINTS)
    )
    first, second = await released(objects, admin)
    assert (
        "The settings of Pulsar's balancer in PulsarCluster pulsar/gone were NOT restored: KeyError"
    ) in first and "hunter2" not in first
    assert "The settings of Pulsar's balancer in PulsarCluster pulsar/east were restored" in second
