"""The record of a cluster's instance id: a ConfigMap that outlives the PulsarCluster, as its volumes may.

Content: domain/dataplane/registration/metadata.py. Written by registration/bootstrap.py, registration/version_record.py
and registration/deregistration.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from pulsar_operator.api.constants import LABEL_MANAGED_BY, MANAGED_BY
from pulsar_operator.domain.dataplane.registration.metadata import Record
from pulsar_operator.ports import CONFIG_MAPS, Deps, Json


def record_name(cluster: str) -> str:
    """Returns the name of the ConfigMap with a PulsarCluster's INSTANCEID; ``cluster`` is its metadata.name."""
    return f"{cluster}-instance-id"


def record_manifest(cluster: str, namespace: str, labels: Mapping[str, str], record: Record) -> Json:
    """Returns the ConfigMap; it has no owner, since it lives as long as the volumes."""
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {
            "name": record_name(cluster),
            "namespace": namespace,
            "labels": {**labels, LABEL_MANAGED_BY: MANAGED_BY},
        },
        "data": record.to_data(),
    }


async def write_record(deps: Deps, manifest: Json, read: Json | None) -> Json:
    """Creates the ConfigMap, or replaces exactly the one that was read. Returns it as stored. Raises PortError,
    including ConflictError if another writer was faster.
    """
    if read is None:
        return await deps.kube.create(manifest)
    found = read["metadata"]
    guard = {"uid": found["uid"], "resourceVersion": found["resourceVersion"]}
    return await deps.kube.apply({**manifest, "metadata": {**manifest["metadata"], **guard}})
