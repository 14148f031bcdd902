"""Racks of bookies, such as zones: the rack of each bookie, and the number of racks over which copies are spread."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, validations

LABEL_KEY = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
)
"""Key of a label (https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/)."""
RACK_NAME = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
"""As the value of a label. No slash: all racks are of one depth, or BookKeeper takes none of them (class
NetworkTopologyImpl, InvalidTopologyException)."""
DEFAULT_RACK = "default-rack"
"""Rack of bookies whose rack BookKeeper does not know (class NetworkTopology, DEFAULT_RACK)."""

RACK_RULES = (
    (
        "!has(self.racks) || !self.racks.enforceMinimum || self.racks.minimum <= self.replicas",
        "spec.bookkeeper.racks.minimum must not exceed spec.bookkeeper.replicas while enforceMinimum is true, "
        "because no ledger could be created. Lower minimum, or raise replicas",
    ),
    (
        "!has(self.racks) || !self.racks.enforceMinimum || !has(self.racks.byOrdinal) || "
        "self.racks.minimum <= self.racks.byOrdinal.size()",
        "spec.bookkeeper.racks.byOrdinal must have at least racks.minimum racks while enforceMinimum is true, "
        "because no ledger could be created otherwise. Add racks, or lower minimum",
    ),
)
"""CEL rules of the bookies."""


class Racks(ApiModel):
    """Racks of the bookies. Exactly one of topologyKey and byOrdinal must be set."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "has(self.topologyKey) != has(self.byOrdinal)",
                "exactly one of topologyKey and byOrdinal must be set in spec.bookkeeper.racks",
            ),
            (
                f"!has(self.byOrdinal) || !('{DEFAULT_RACK}' in self.byOrdinal)",
                f"spec.bookkeeper.racks.byOrdinal must not contain {DEFAULT_RACK}, because BookKeeper uses this "
                "rack for bookies whose rack is unknown. Choose another name",
            ),
        )
    )

    topology_key: Annotated[str, Field(min_length=1, max_length=317, pattern=LABEL_KEY)] | None = None
    """Label whose value is the rack, such as topology.kubernetes.io/zone. The operator reads it from the pod of the
    bookie, to which Kubernetes 1.35 and newer copies the zone and region of the node, or else from the node if
    rbac.readNodes of the operator's chart allows this."""
    by_ordinal: (
        Annotated[
            list[Annotated[str, Field(min_length=1, max_length=63, pattern=RACK_NAME)]],
            Field(min_length=1, max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Names of the racks. The bookie with ordinal n is in the rack at index n modulo the number of racks."""
    minimum: Annotated[int, Field(ge=1, le=32)] = 2
    """Minimum number of racks that have copies of each entry, if the entry has that many copies
    (bookkeeperClientMinNumRacksPerWriteQuorum)."""
    enforce_minimum: bool = False
    """Whether the minimum is enforced (bookkeeperClientEnforceMinNumRacksPerWriteQuorum). If true, ledgers cannot be
    created while there are fewer racks, and bookies without a known rack get no ledgers. If false, one rack may have
    several copies of an entry while there are fewer racks."""
