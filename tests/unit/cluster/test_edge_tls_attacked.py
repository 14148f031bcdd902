"""TLS at the edge when the operator cannot read or write a Secret, and when a certificate is odd or has expired."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import (
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    ForbiddenError,
    Json,
    PortError,
    RefusedError,
    ResourceType,
)
from tests.support.certificates import contents, issue
from tests.support.cluster.world import NS
from tests.unit.cluster.test_edge_tls import COPY, HOST, LISTENER, Edge

EXPIRED = 25 * 86400.0
"""Seconds after which a certificate of 20 days has expired."""


async def serving(mode: str | None, *listeners: Json, names: tuple[str, ...] = (HOST,), days: int = 90) -> Edge:
    """A cluster that is ready, with a good certificate."""
    found = Edge()
    await found.given(contents(found.leaf(*names, days=days), found.root))
    await found.applied(mode, *listeners)
    await found.world.run()
    assert await found.world.all_ready() == {}
    return found


def refuse_copy(found: Edge, monkeypatch: pytest.MonkeyPatch, error: PortError) -> None:
    apply: Callable[..., Awaitable[Any]] = found.world.deps.kube.apply

    async def refused(manifest: Json, *more: Any, **options: Any) -> Any:
        if manifest["kind"] == "Secret" and manifest["metadata"]["name"] == COPY:
            raise error
        return await apply(manifest, *more, **options)

    monkeypatch.setattr(found.world.deps.kube, "apply", refused)


async def lost(found: Edge, name: str) -> None:
    """A StatefulSet is lost, and comes back."""
    await found.world.backstage.remove(STATEFUL_SETS, NS, name)
    await found.world.run()
    assert await found.world.live(STATEFUL_SETS, name) is not None


@pytest.mark.parametrize(
    "error", [RefusedError("exceeded quota: count/secrets", status=403), ForbiddenError("secrets is forbidden")]
)
async def test_no_pod_mounts_a_copy_that_could_not_be_written(
    error: PortError, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await serving(None)
    refuse_copy(found, monkeypatch, error)
    await found.to("PlainAndTLS")
    await found.world.run()
    assert found.world.workloads.ready[NS, "east-proxy"] == 2
    assert COPY not in str((await found.world.get(STATEFUL_SETS, "east-proxy"))["spec"]["template"])
    assert (await found.told())[0] != "True" and (await found.told("Ready"))[0] != "True"


async def test_no_pod_mounts_the_secret_of_somebody_else() -> None:
    found = await serving(None)
    await found.given({"tls.crt": b"mine", "tls.key": b"m"}, COPY)
    await found.to("PlainAndTLS")
    await found.world.change(Kind.CLUSTER, "east", lambda spec: spec["proxy"].update(replicas=3))
    await found.world.run()
    assert COPY not in str((await found.world.get(STATEFUL_SETS, "east-proxy"))["spec"]["template"])


async def test_a_copy_that_cannot_be_renewed_keeps_nothing_else_from_being_repaired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = await serving("Required")
    refuse_copy(found, monkeypatch, ForbiddenError("secrets is forbidden"))
    await found.good()
    for name in ("east-broker", "east-proxy"):
        await found.world.backstage.remove(SERVICES, NS, name)
    await found.world.run()
    for name in ("east-broker", "east-proxy"):
        assert await found.world.live(SERVICES, name) is not None


async def test_a_secret_of_the_user_that_may_not_be_read_leaves_the_copy_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = await serving("Required")
    get = found.world.deps.kube.get

    async def refused(kind: ResourceType, namespace: str, name: str) -> Json | None:
        if kind == SECRETS and name == "edge":
            raise ForbiddenError("secrets is forbidden")
        return await get(kind, namespace, name)

    monkeypatch.setattr(found.world.deps.kube, "get", refused)
    await lost(found, "east-proxy")
    assert (await found.told())[0] == "False" and (await found.told("CertificatesValid"))[0] == "True"


@pytest.mark.parametrize(("mode", "name"), [("Required", "east-proxy"), ("Plain", "east-broker")])
async def test_pods_that_are_lost_come_back_with_an_expired_certificate(mode: str, name: str) -> None:
    found = await serving(mode, LISTENER, names=(HOST, "*.example.com"), days=20)
    found.world.clock.forward(EXPIRED)
    await found.world.run()
    assert (await found.told("CertificatesValid"))[0] == "False"
    await lost(found, name)


async def test_a_date_that_cannot_be_read_ends_no_pass() -> None:
    found = await serving("PlainAndTLS")
    begin, end = datetime(2051, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    far = issue("x", issuer=found.root, names=[HOST], begin=begin, end=end)
    der = far.certificate.public_bytes(Encoding.DER).replace(b"99991231235959Z", b"00001231235959Z")
    pem = b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"
    await found.given({**contents(far), "tls.crt": pem})
    await lost(found, "east-broker")
    assert (await found.told())[:2] == ("False", "CertificateInvalid")


async def test_proxies_without_their_stateful_set_are_reached_by_all_clients() -> None:
    found = await serving(None)
    for mode in ("PlainAndTLS", "Required"):
        await found.to(mode)
        for key in await found.world.keys():
            await found.world.reconcile(key)
    await found.world.backstage.remove(STATEFUL_SETS, NS, "east-proxy")
    for key in await found.world.keys():
        await found.world.reconcile(key)
    served = await found.ports()
    assert all(ports & served for ports in (await found.open_ports()).values())
