"""The configuration store of a cluster's brokers, read from the configuration that they run with. Pure.

The status of the PulsarInstance is deleted with the instance; the configuration stays with the pods.
"""

from __future__ import annotations

from typing import Final

from pulsar_operator.api.constants import Component
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.render.addresses import StoreAddress
from pulsar_operator.domain.render.config import OVERRIDES_FILE

KEY: Final = "configurationMetadataStoreUrl"
SCHEME: Final = "zk:"


def store_of_brokers(live: Live) -> StoreAddress | None:
    """Returns the store in the configuration of the brokers' StatefulSet; None if there is no StatefulSet, or it names
    no store."""
    workload = live.stateful_set(Component.BROKER)
    if workload is None:
        return None
    volumes = workload["spec"]["template"]["spec"].get("volumes") or ()
    for name in (str(each["configMap"].get("name")) for each in volumes if "configMap" in each):
        data = (live.get("ConfigMap", name) or {}).get("data") or {}
        values = dict(line.partition("=")[::2] for line in str(data.get(OVERRIDES_FILE, "")).splitlines())
        url = values.get(KEY, "")
        servers, slash, path = url.removeprefix(SCHEME).partition("/")
        if url.startswith(SCHEME) and servers:
            return StoreAddress(servers, f"{slash}{path}")
    return None
