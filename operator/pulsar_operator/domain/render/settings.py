"""The keys of a component's config that the version of Pulsar knows. Pure; data/settings has the names by version.

Pulsar ignores a key that it does not know, so a misspelled key would replace all pods and change nothing. Such a key is
not applied, and neither is one whose feature no image has. A key counts as known if the version has it, if its prefix
hands it on to something else, or if the config loads a plug-in, which may read its own keys.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.domain.render.config import VERBATIM, check_config
from pulsar_operator.domain.render.reserved import CONFIG_FIELDS

BROKER, BOOKIE, PROXY, ZOOKEEPER, STANDALONE = "broker", "bookie", "proxy", "zookeeper", "standalone"
TABLES: Mapping[Component, tuple[str, ...]] = {
    Component.ZOOKEEPER: (ZOOKEEPER,),
    Component.CONFIGURATION_STORE: (ZOOKEEPER,),
    Component.BOOKIE: (BOOKIE,),
    Component.AUTORECOVERY: (BOOKIE,),
    Component.BROKER: (BROKER,),
    Component.PROXY: (PROXY,),
    Component.STANDALONE: (BROKER, BOOKIE, STANDALONE),
}
"""Lists of names that a component reads."""
PREFIXES: Mapping[str, tuple[str, ...]] = {
    BROKER: ("bookkeeper_", "brokerClient_"),
    PROXY: ("brokerClient_", "httpReverseProxy."),
    BOOKIE: ("dbStorage_", "dlog.", "storage.", "storageserver.", "cluster.controller."),
    ZOOKEEPER: ("metricsProvider.",),
    STANDALONE: (),
}
"""Beginnings of keys that a server hands on: to its clients, and to what its configuration loads."""
PLUG_INS = frozenset(
    [
        "additionalServlets",
        "brokerInterceptors",
        "entryFilterNames",
        "extraServerComponents",
        "messagingProtocols",
        "proxyAdditionalServlets",
        "proxyExtensions",
    ]
)
"""Keys whose values load plug-ins by name."""
_CLASS = re.compile(r"([a-z_][A-Za-z0-9_]*\.)+[A-Z][A-Za-z0-9_$]*")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_STOCK = ("org.apache.pulsar.", "org.apache.bookkeeper.", "org.apache.zookeeper.")
UNAVAILABLE: Mapping[str, str] = {
    "managedLedgerOffloadDriver": "tiered storage cannot be configured in this version: no image has an offload driver",
}
"""Keys of brokers, with any value, that need what no image has."""
SHOWN = 5
"""Keys that a message names."""
LONGEST = 100
"""Characters of a key for which a near name is looked for."""

Config = Mapping[str, str]


@dataclass(frozen=True)
class KnownSettings:
    """Names of settings by version of Pulsar, then by list."""

    versions: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)

    @classmethod
    def parse(cls, found: Mapping[str, Mapping[str, Iterable[str]]]) -> KnownSettings:
        """From the files of data/settings, by version."""
        return cls(
            {version: {name: frozenset(keys) for name, keys in lists.items()} for version, lists in found.items()}
        )

    def __deepcopy__(self, copied: dict[int, Any]) -> KnownSettings:
        """The same: it is never changed."""
        return self

    def names(self, component: Component, version: str) -> frozenset[str] | None:
        """Every name that a component of the version knows; None where there is no list of the version."""
        lists = self.versions.get(version)
        if lists is None:
            return None
        return frozenset().union(*(lists.get(table, frozenset()) for table in TABLES[component]))


@dataclass(frozen=True)
class Judged:
    """The config of one component."""

    applied: dict[str, str]
    problems: tuple[str, ...] = ()
    """A sentence for each key that is not applied."""


@dataclass(frozen=True)
class Sifted:
    """A specification whose configs hold what is applied."""

    spec: PulsarClusterSpec
    problems: tuple[str, ...] = ()
    unchecked: bool = False
    """There is a config, and no list of the version: all is applied."""


def judge(component: Component, version: str, config: Config, known: KnownSettings) -> Judged:
    """What of a config is applied, and why not the rest."""
    names = known.names(component, version)
    applied: dict[str, str] = {}
    problems: list[str] = []
    checked = names is not None and not loads_plug_ins(config)
    for key, value in sorted(config.items()):
        why = _unavailable(component, key, value)
        if why is None and names is not None and checked and not _is_known(component, key, names):
            near = _nearest(key, names) if len(problems) < SHOWN and len(key) <= LONGEST else None
            why = f"Pulsar {version} does not know it: {_remedy(key, near)}"
        if why is not None:
            problems.append(f'{CONFIG_FIELDS[component]} key "{key[:LONGEST]}" is not applied: {why}')
        else:
            applied[key] = value
    return Judged(applied, tuple(problems))


def _remedy(key: str, near: str | None) -> str:
    if near is not None:
        return f"write {near}"
    return f"take it out, or write {VERBATIM}{key} to apply it unchecked" if len(key) <= LONGEST else "take it out"


def sift(spec: PulsarClusterSpec, known: KnownSettings) -> Sifted:
    """A specification with the settings that are applied, and what is said of the others."""
    problems: list[str] = []
    some = False

    def judged(component: Component, config: Config) -> Config:
        nonlocal some
        some = some or bool(config)
        found = judge(component, spec.version, config, known)
        problems.extend(found.problems)
        return found.applied

    changed = _with_configs(spec, judged)
    return Sifted(changed, tuple(problems), unchecked=some and spec.version not in known.versions)


def unchecked(version: str, config: Config | None, known: KnownSettings) -> bool:
    """Whether there is a config, and no list of the version."""
    return bool(config) and version not in known.versions


def with_kept(
    spec: PulsarClusterSpec, known: KnownSettings, running: Mapping[Component, Config]
) -> PulsarClusterSpec | None:
    """Returns the specification with the unknown keys that pods run with; None if there are none. ``running`` is the
    config in the pods' templates, by component. Removing such a key would be a rollout without an effect.
    """
    kept: dict[Component, dict[str, str]] = {}
    for component, config in running.items():
        if left := left_out(component, spec.version, config, known):
            owner = Component.BOOKIE if component is Component.AUTORECOVERY else component
            kept.setdefault(owner, {}).update(left)
    if not kept:
        return None
    return _with_configs(spec, lambda component, config: {**kept.get(component, {}), **config})


def left_out(component: Component, version: str, config: Config, known: KnownSettings) -> dict[str, str]:
    """The part of a config that is not applied."""
    applied = judge(component, version, config, known).applied
    return {key: value for key, value in config.items() if key not in applied}


def _with_configs(spec: PulsarClusterSpec, change: Callable[[Component, Config], Config]) -> PulsarClusterSpec:
    update: dict[str, Any] = {}

    def put(name: str, component: Component, section: Any) -> Any:
        return section.model_copy(update={"config": dict(change(component, section.config or {})) or None})

    if spec.metadata_store is not None and spec.metadata_store.managed is not None:
        managed = put("managed", Component.ZOOKEEPER, spec.metadata_store.managed)
        update["metadata_store"] = spec.metadata_store.model_copy(update={"managed": managed})
    sections = {"bookkeeper": Component.BOOKIE, "broker": Component.BROKER, "proxy": Component.PROXY}
    for name, component in {**sections, "standalone": Component.STANDALONE}.items():
        if (section := getattr(spec, name)) is not None:
            update[name] = put(name, component, section)
    return spec.model_copy(update=update)


def _unavailable(component: Component, key: str, value: str) -> str | None:
    if component not in (Component.BROKER, Component.STANDALONE) or not value.strip():
        return None
    return UNAVAILABLE.get(key.removeprefix(VERBATIM))


def _is_known(component: Component, key: str, names: frozenset[str]) -> bool:
    """Also a key that check_config refuses: it says more of it."""
    if check_config(component, {key: ""}):
        return True
    prefixes = (VERBATIM, *(each for table in TABLES[component] for each in PREFIXES[table]))
    return key in names or key.startswith(prefixes)


def loads_plug_ins(config: Config) -> bool:
    """Whether a config names code that is not Pulsar's own."""
    for key, value in config.items():
        if key in PLUG_INS and value.strip():
            return True
        for each in (part.strip() for part in value.split(",")):
            if _CLASS.fullmatch(each) and not each.startswith(_STOCK):
                return True
    return False


@lru_cache(maxsize=256)
def _nearest(key: str, names: frozenset[str]) -> str | None:
    """Returns the name that was probably meant, by its letters, or its words in any order."""
    for form, cutoff in ((str.lower, 0.7), (_words, 0.6)):
        forms = {form(name): name for name in sorted(names)}
        if found := difflib.get_close_matches(form(key), forms, n=1, cutoff=cutoff):
            return forms[found[0]]
    return None


def _words(name: str) -> str:
    return " ".join(sorted(word.lower() for word in _WORD.findall(name)))
