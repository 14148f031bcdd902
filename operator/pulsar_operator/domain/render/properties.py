"""Java system properties that could set what is reserved in config.

ZooKeeper copies unknown keys of its file into system properties ``zookeeper.<key>``, and reads them there (class
QuorumPeerConfig of 3.9). BookKeeper applies all system properties over its file if
``org.apache.bookkeeper.conf.readsystemproperties`` is true (class AbstractConfiguration of 4.17).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.base import Jvm
from pulsar_operator.api.v1alpha1.pods import PodTemplate
from pulsar_operator.domain.render.config import reserved_because

VARIABLES = ("PULSAR_EXTRA_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
"""Environment variables with JVM arguments: the start program reads the first, Java itself the others."""

_ZOOKEEPER = "zookeeper."
_SERVERS = (Component.ZOOKEEPER, Component.CONFIGURATION_STORE)
_ALL_PROPERTIES = "org.apache.bookkeeper.conf.readsystemproperties"


def property_problems(component: Component, field: str, jvm: Jvm | None, pod: PodTemplate | None) -> list[str]:
    """Returns why arguments are refused. ``field`` is the path of the component in the spec. Only the start program can
    check values from a Secret or a ConfigMap."""
    return [
        f"{place} sets {name}, which is reserved, because {why}. Remove the setting"
        for place, argument in _arguments(field, jvm, pod)
        if argument.startswith("-D")
        for name in (argument.removeprefix("-D").partition("=")[0],)
        if (why := _because(component, name))
    ]


def _arguments(field: str, jvm: Jvm | None, pod: PodTemplate | None) -> Iterator[tuple[str, str]]:
    for number, option in enumerate((jvm.options if jvm else None) or ()):
        yield f"{field}.jvm.options[{number}]", option
    for variable in (pod.env if pod else None) or ():
        if variable.name in VARIABLES:
            for word in _words(variable.value or ""):
                yield f'{field}.pod.env "{variable.name}"', word


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quotation that does not end; the start program says so
        return text.split()


def _because(component: Component, name: str) -> str | None:
    if name == _ALL_PROPERTIES:
        return "it would override settings of BookKeeper with system properties"
    if component in _SERVERS and name.startswith(_ZOOKEEPER):
        return reserved_because(component, name.removeprefix(_ZOOKEEPER))
    return None
