"""The CPU of a cluster's brokers in words, for the sizing job: the same that plans for its bundles go by."""

from __future__ import annotations

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.balance.model.capacity import cpus_of
from pulsar_operator.domain.dataplane.live import Live
from pulsar_operator.domain.render.capacities import CAPACITIES_KEY, capacities_name
from pulsar_operator.ports import CONFIG_MAPS


def capacities_text(live: Live, spec: PulsarClusterSpec) -> str:
    """``NAME=CPU,...`` by the name of a pod; empty where nothing tells the brokers apart."""
    found = live.facts(Component.BROKER)
    if found is None or not (found.all_ready and found.up_to_date):
        # Between two pods of a roll to another CPU the brokers differ for minutes: not worth a word.
        there = live.get(CONFIG_MAPS.kind, capacities_name(live.owner.name)) or {}
        return str((there.get("data") or {}).get(CAPACITIES_KEY) or "")
    cpus = cpus_of(live.pods(Component.BROKER), spec.load_balancing.capacities)
    if len(set(cpus.values())) < 2:
        return ""
    return ",".join(f"{name}={cpus[name]:g}" for name in sorted(cpus))
