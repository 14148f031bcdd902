"""Reads the Secrets with the certificate at the edge of a cluster."""

from __future__ import annotations

from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.controllers.core.failures import reason_of
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.dataplane.objects.live_objects import controller_uid
from pulsar_operator.domain.dataplane.observed.edge_certificate import EdgeSecrets, edge_of
from pulsar_operator.domain.render import Owner
from pulsar_operator.domain.render.edge_tls import edge_secret_name
from pulsar_operator.ports import SECRETS, Deps, Json, RefusedError


async def edge_secrets(deps: Deps, spec: PulsarClusterSpec, owner: Owner) -> EdgeSecrets | None:
    """Reads the Secret with the certificate and the operator's copy, by their names. A missing permission does not keep
    the rest of the pass from running."""
    edge = edge_of(spec)
    if edge is None:
        return None
    now = deps.clock.now()
    found: list[Json | None] = []
    problem: Blocker | None = None
    for name in (edge.secret_name, edge_secret_name(owner.name)):
        try:
            found.append(await deps.kube.get(SECRETS, owner.namespace, name))
        except RefusedError as error:
            found.append(None)
            problem = problem or Blocker(*reason_of(error))
    given, copy = found
    ours = copy if copy is not None and controller_uid(copy) == owner.uid else None
    return EdgeSecrets(given, ours, now, problem)
