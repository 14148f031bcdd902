"""ConfigMap ``<cluster>-capacities``: the CPU of brokers where they differ, for who is not allowed to look at pods."""

from __future__ import annotations

from pulsar_operator.api.constants import Component
from pulsar_operator.domain.render.common import Manifest, metadata
from pulsar_operator.domain.render.names import Owner

CAPACITIES_KEY = "capacities"
"""Its value is what option --capacities of the sizing job takes: NAME=CPU,..., by the name of a pod."""


def capacities_name(cluster: str) -> str:
    """Name of the ConfigMap; ``cluster`` is the PulsarCluster's metadata.name."""
    return f"{cluster}-capacities"


def render_capacities(owner: Owner, text: str) -> Manifest:
    """The ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, capacities_name(owner.name), Component.BROKER),
        "data": {CAPACITIES_KEY: text},
    }
