"""Checks whether the version of Pulsar knows the keys of a component's config. Pure; data/settings has the names by
version.

Pulsar ignores an unknown key, so a misspelled key would replace all pods and change nothing. Such a key is not applied,
nor is one whose feature no image has. A key counts as known if the version has it, if its prefix passes it on to
another component, or if the config loads a plug-in, which may read its own keys.
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
"""Lists of names that apply to a component."""
PREFIXES: Mapping[str, tuple[str, ...]] = {
    BROKER: ("bookkeeper_", "brokerClient_"),
    PROXY: ("brokerClient_", "httpReverseProxy."),
    BOOKIE: ("dbStorage_", "dlog.", "storage.", "storageserver.", "cluster.controller."),
    ZOOKEEPER: ("metricsProvider.",),
    STANDALONE: (),
}
"""Prefixes of keys that a server passes on to its clients or to the code that its configuration loads."""
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
    "managedLedgerOffloadDriver": ("no image of this version has an offload driver, which tiered storage requires"),
}
"""Keys of brokers that require, with any value, something that no image has."""
SHOWN = 5
"""Maximum number of keys for which a similar name is searched."""
LONGEST = 100
"""Maximum length of a key for which a similar name is searched, in characters."""

Config = Mapping[str, str]


@dataclass(frozen=True)
class KnownSettings:
    """Names of settings, by Pulsar version and then by list."""

    versions: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)

    @classmethod
    def parse(cls, found: Mapping[str, Mapping[str, Iterable[str]]]) -> KnownSettings:
        """Returns the value for the content of the files in data/settings, by version."""
        return cls(
            {version: {name: frozenset(keys) for name, keys in lists.items()} for version, lists in found.items()}
        )

    def __deepcopy__(self, copied: dict[int, Any]) -> KnownSettings:
        """Returns the object itself, since it is immutable."""
        return self

    def names(self, component: Component, version: str) -> frozenset[str] | None:
        """Returns every name that a component knows in the version; None if there is no list for the version."""
        lists = self.versions.get(version)
        if lists is None:
            return None
        return frozenset().union(*(lists.get(table, frozenset()) for table in TABLES[component]))


@dataclass(frozen=True)
class Judged:
    """The checked config of one component."""

    applied: dict[str, str]
    problems: tuple[str, ...] = ()
    """A sentence for each key that is not applied."""


@dataclass(frozen=True)
class Sifted:
    """A specification whose configs contain only the settings that are applied."""

    spec: PulsarClusterSpec
    problems: tuple[str, ...] = ()
    unchecked: bool = False
    """Whether there is a config but no list for the version, so that all of it is applied."""


def judge(component: Component, version: str, config: Config, known: KnownSettings) -> Judged:
    """Returns the part of a config that is applied, and why the rest is not."""
    names = known.names(component, version)
    applied: dict[str, str] = {}
    problems: list[str] = []
    checked = names is not None and not loads_plug_ins(config)
    for key, value in sorted(config.items()):
        why = _unavailable(component, key, value)
        if why is None and names is not None and checked and not _is_known(component, key, names):
            near = _nearest(key, names) if len(problems) < SHOWN and len(key) <= LONGEST else None
            why = f"Pulsar {version} does not know it. {_remedy(key, near)}"
        if why is not None:
            problems.append(f'{CONFIG_FIELDS[component]} key "{key[:LONGEST]}" is not applied, because {why}')
        else:
            applied[key] = value
    return Judged(applied, tuple(problems))


def _remedy(key: str, near: str | None) -> str:
    if near is not None:
        return f"Write {near} instead"
    return (
        (f"Remove the key, or write {VERBATIM}{key} to apply it unchecked") if len(key) <= LONGEST else "Remove the key"
    )


def sift(spec: PulsarClusterSpec, known: KnownSettings) -> Sifted:
    """Returns a specification with the settings that are applied, and the problems of the others."""
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
    """Whether there is a config but no list for the version."""
    return bool(config) and version not in known.versions


def with_kept(
    spec: PulsarClusterSpec, known: KnownSettings, running: Mapping[Component, Config]
) -> PulsarClusterSpec | None:
    """Returns the specification with the unknown keys that pods already run with; None if there are none.

    ``running`` is the config in the pod templates, by component. Removing such a key would cause a rollout without
    effect.
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
    """Returns the part of a config that is not applied."""
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
    """Whether a key is known. This includes keys that check_config refuses, since it reports them in more detail."""
    if check_config(component, {key: ""}):
        return True
    prefixes = (VERBATIM, *(each for table in TABLES[component] for each in PREFIXES[table]))
    return key in names or key.startswith(prefixes)


def loads_plug_ins(config: Config) -> bool:
    """Whether a config names code that is not part of Pulsar."""
    for key, value in config.items():
        if key in PLUG_INS and value.strip():
            return True
        for each in (part.strip() for part in value.split(",")):
            if _CLASS.fullmatch(each) and not each.startswith(_STOCK):
                return True
    return False


@lru_cache(maxsize=256)
def _nearest(key: str, names: frozenset[str]) -> str | None:
    """Returns the name that was probably meant, by its letters or by its words in any order; None if there is none."""
    for form, cutoff in ((str.lower, 0.7), (_words, 0.6)):
        forms = {form(name): name for name in sorted(names)}
        if found := difflib.get_close_matches(form(key), forms, n=1, cutoff=cutoff):
            return forms[found[0]]
    return None


def _words(name: str) -> str:
    return " ".join(sorted(word.lower() for word in _WORD.findall(name)))
