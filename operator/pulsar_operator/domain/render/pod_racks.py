"""The effect of bookie racks on pods and settings; none if the specification has no racks.

Brokers choose bookies by rack by default (bookkeeperClientRackawarePolicyEnabled true, two racks, not enforced), and
auto-recovery by the same mapping (reppDnsResolverClass of Pulsar's bookkeeper.conf). So only other settings are
written.
"""

from __future__ import annotations

from pulsar_operator.api.constants import ANNOTATION_RACK
from pulsar_operator.api.v1alpha1.cluster import BookKeeper, Broker
from pulsar_operator.api.v1alpha1.racks import Racks
from pulsar_operator.domain.render.common import DOWNWARD, DOWNWARD_FOLDER, Manifest, env_value
from pulsar_operator.domain.render.pod_placement import ZONE

MINIMUM = "bookkeeperClientMinNumRacksPerWriteQuorum"
ENFORCE = "bookkeeperClientEnforceMinNumRacksPerWriteQuorum"
RACK_AWARE = "bookkeeperClientRackawarePolicyEnabled"
REGION_AWARE = "bookkeeperClientRegionawarePolicyEnabled"
COPIES_MINIMUM = "minNumRacksPerWriteQuorum"
STOCK_MINIMUM = 2
"""Default minimum of brokers and of auto-recovery."""
RACK_FILE = "rack"
RACK_VARIABLE = "PULSAR_OPERATOR_RACK"
"""Environment variable with the file that contains the rack once the metadata store has it."""


def broker_racks(keeper: BookKeeper | None) -> dict[str, str]:
    """Returns the settings of brokers."""
    racks = keeper.racks if keeper is not None else None
    found = _minimum(MINIMUM, racks)
    if racks is not None and racks.enforce_minimum:
        found[ENFORCE] = "true"
    return found


def copying_racks(keeper: BookKeeper) -> dict[str, str]:
    """Returns the settings of auto-recovery. It enforces no minimum: two copies in one rack are better than one
    copy."""
    return _minimum(COPIES_MINIMUM, keeper.racks)


def _minimum(key: str, racks: Racks | None) -> dict[str, str]:
    return {key: str(racks.minimum)} if racks is not None and racks.minimum != STOCK_MINIMUM else {}


def spread_over(keeper: BookKeeper) -> str:
    """Returns the label over whose values bookies are spread, unless the user sets one."""
    return (keeper.racks.topology_key if keeper.racks is not None else None) or ZONE


def racks_from_pods(keeper: BookKeeper) -> dict[str, str]:
    """Returns the files with fields of the pod: its rack, if racks follow from the node of a pod."""
    waits = keeper.racks is not None and keeper.racks.topology_key is not None
    return {RACK_FILE: f"metadata.annotations['{ANNOTATION_RACK}']"} if waits else {}


def wait_for_rack(keeper: BookKeeper) -> list[Manifest]:
    """Returns the variables with which the start program waits until that file has content."""
    return [env_value(RACK_VARIABLE, f"{DOWNWARD_FOLDER}/{RACK_FILE}")] if racks_from_pods(keeper) else []


def rack_problems(keeper: BookKeeper, broker: Broker) -> list[str]:
    """Returns the settings that conflict with racks."""
    if keeper.racks is None:
        return []
    given, copying = broker.config or {}, keeper.config or {}
    found = [
        f'spec.broker.config key "{key}" is set by spec.bookkeeper.racks.{field}. Remove the key'
        for key, field in ((MINIMUM, "minimum"), (ENFORCE, "enforceMinimum"))
        if key in given
    ]
    if COPIES_MINIMUM in copying:
        found.append(f'spec.bookkeeper.config key "{COPIES_MINIMUM}" is set by racks.minimum. Remove the key')
    if given.get(RACK_AWARE, "true").strip().lower() != "true":
        found.append(
            f'spec.broker.config key "{RACK_AWARE}" switches off the rack awareness that spec.bookkeeper.racks '
            "configures. Remove one of them"
        )
    if given.get(REGION_AWARE, "false").strip().lower() == "true":
        found.append(
            f'spec.broker.config key "{REGION_AWARE}" requires regions before the racks, and '
            "spec.bookkeeper.racks has no regions. Remove one of them"
        )
    volumes = (keeper.pod.volumes if keeper.pod else None) or ()
    if racks_from_pods(keeper) and any(volume.name == DOWNWARD for volume in volumes):
        found.append(
            f'spec.bookkeeper.pod.volumes name "{DOWNWARD}" is used by a volume of the operator if '
            "racks.topologyKey is set. Choose another name"
        )
    return found
