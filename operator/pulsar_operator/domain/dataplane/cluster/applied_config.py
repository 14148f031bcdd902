"""Keys of config that the operator does not apply: their messages, and pods that still run with such a key. Pure.

Pods may run with a key that an older operator applied. The key has no effect, and removing it would replace every pod,
so it stays until the pods are replaced for another reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pulsar_operator.api.constants import Component, ConditionType, Reason
from pulsar_operator.domain.conditions import ConditionSet
from pulsar_operator.domain.dataplane.objects.live_objects import STATEFUL_SET, Live
from pulsar_operator.domain.dataplane.objects.local_volumes import without_a_roll
from pulsar_operator.domain.dataplane.observed.running_versions import record_of
from pulsar_operator.domain.render.broker import LOAD_MANAGER_KEY
from pulsar_operator.domain.render.config import OVERRIDES_FILE, parse_overrides
from pulsar_operator.domain.render.settings import SHOWN

Json = dict[str, Any]
CONFIG_MAP = "ConfigMap"


def set_config_condition(conditions: ConditionSet, problems: Sequence[str], unchecked: str | None) -> None:
    """Sets condition ConfigApplied if any key is not applied. ``unchecked`` is a version without a list of settings."""
    if problems:
        more = f". There are {len(problems) - SHOWN} more such keys" if len(problems) > SHOWN else ""
        text = f"{'. '.join(problems[:SHOWN])}{more}. All other settings are applied"
        conditions.set(ConditionType.CONFIG_APPLIED, False, Reason.CONFIG_NOT_APPLIED, text)
    elif unchecked is not None:
        text = (
            f"The operator does not know the settings of Pulsar {unchecked}, so it applies every key of config. "
            "Pulsar ignores misspelled keys. Check that each key appears in the configuration that the brokers "
            "log when they start"
        )
        conditions.set(ConditionType.CONFIG_APPLIED, True, Reason.CONFIG_UNCHECKED, text)


def running_configs(live: Live, components: Iterable[Component]) -> dict[Component, Mapping[str, str]]:
    """Returns the overrides.conf in the template of each component; a component without one is left out."""
    found: dict[Component, Mapping[str, str]] = {}
    for component in components:
        there = live.stateful_set(component)
        config = None if there is None else _mounted_config(live, there["spec"]["template"]["spec"])
        if config is not None:
            found[component] = config
    return found


def load_managers(live: Live) -> frozenset[str]:
    """Returns the load manager classes that the brokers' pods run. Pods that are being deleted, or whose ConfigMap is
    unknown, are left out."""
    pods = (pod for pod in live.pods(Component.BROKER) if "deletionTimestamp" not in pod["metadata"])
    configs = (_mounted_config(live, pod.get("spec") or {}) or {} for pod in pods)
    return frozenset(name for each in configs if (name := each.get(LOAD_MANAGER_KEY)))


def _mounted_config(live: Live, pod_spec: Mapping[str, Any]) -> dict[str, str] | None:
    """Returns the settings in the overrides.conf that a pod mounts; None if it mounts none or the ConfigMap is
    unknown."""
    names = (
        each["configMap"]["name"]
        for each in pod_spec.get("volumes") or ()
        if "configMap" in each and each["name"] == "config"
    )
    mounted = next((found for name in names if (found := live.get(CONFIG_MAP, name)) is not None), None)
    return None if mounted is None else parse_overrides((mounted.get("data") or {}).get(OVERRIDES_FILE, ""))


def without_a_roll_of(clean: Sequence[Json], kept: Sequence[Json], live: Live, component: Component) -> list[Json]:
    """Returns the manifests of a component without the keys, or with them if removing the keys alone would replace
    pods."""
    newer, older = (next((each for each in some if each["kind"] == STATEFUL_SET), None) for some in (clean, kept))
    if newer is None or older is None:
        return list(clean)
    chosen = without_a_roll(newer, older, live.stateful_set(component), record_of(live, component))
    return list(kept if chosen is older else clean)
