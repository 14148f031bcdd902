"""The addresses that running brokers advertise at their external listeners. Pure.

A broker reads its addresses when it starts, and sends the same ones to clients until it ends. Both load managers write
them to the broker's entry in the metadata store (classes LocalBrokerData and BrokerLookupData of Pulsar 4.0, field
advertisedListeners; observed on 4.0.8).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

BROKERS_PATH: Final = "/loadbalance/brokers"
"""Node of the metadata store with one ephemeral node for each broker, by its id."""
_URL, _URL_TLS = "brokerServiceUrl", "brokerServiceUrlTls"
"""Of these a listener has one, without TLS or with it."""


def advertised_urls(data: bytes) -> dict[str, str]:
    """Returns the URL by name of the listener from a broker's node; empty if it cannot be read."""
    try:
        found = json.loads(data)["advertisedListeners"]
        return {str(name): str(each.get(_URL) or each[_URL_TLS]) for name, each in found.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def declared_urls(entry: str) -> dict[str, str]:
    """Returns the URL by name of the listener from a value of advertisedListeners; empty for an empty one."""
    return dict(each.split(":", 1) for each in entry.split(",") if each)


def outdated_address(advertised: Mapping[str, str], declared: Mapping[str, str]) -> str | None:
    """Returns why a broker has to be replaced, as a message: it advertises another address than its listener has. None
    if it does not. A listener that was added or removed changes the pod template, so it is no reason here."""
    for name, url in sorted(declared.items()):
        if advertised.get(name, url) != url:
            return f"listener {name} has address {url}, but the broker advertises {advertised[name]}"
    return None
