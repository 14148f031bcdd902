"""The configuration ConfigMap of a component: layers, rendering, and refusal of settings that would break the cluster.

The layers, from the lowest precedence: Pulsar's stock file (which the image's start program adds), the preset, the
operator's recommendations, the user's config, the operator's own settings. The last two never conflict, because the
operator's keys are reserved and refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.base import Jvm
from pulsar_operator.api.v1alpha1.platform import IpFamily, Platform
from pulsar_operator.domain.render.reserved import (
    AUTORECOVERY_KEYS,
    AUTORECOVERY_PREFIXES,
    CONFIG_FIELDS,
    RESERVED,
    RESERVED_PREFIXES,
)

OVERRIDES_FILE = "overrides.conf"
JVM_FILE = "jvm.conf"
VERBATIM = "PULSAR_PREFIX_"
"""Prefix of a key that is applied unchecked, as in the entry point of Pulsar's own images."""
_UNCHECKED = f"# {VERBATIM}"

_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u0085\u2028\u2029]")
_TYPED_JVM = ("-Xmx", "-Xms", "-XX:MaxDirectMemorySize", "-XX:MaxHeapSize", "-XX:InitialHeapSize")
_FORBIDDEN_JVM = ("-jar", "-cp", "-classpath", "--class-path", "-version", "--version", "-help", "--help", "-h")


def layered(*layers: Mapping[str, str] | None) -> dict[str, str]:
    """Returns the merged mappings, in which the last one takes precedence. Keys are sorted, so that rendering is
    deterministic."""
    merged: dict[str, str] = {}
    for layer in layers:
        merged.update(layer or {})
    return dict(sorted(merged.items()))


def overrides_text(values: Mapping[str, str]) -> str:
    """Returns overrides.conf with one key=value per line. A comment before a key marks it as unchecked."""
    lines = []
    for key, value in sorted(values.items()):
        name = key.removeprefix(VERBATIM)
        lines += [f"{_UNCHECKED}{name}"] if name != key else []
        lines.append(f"{name}={value.strip()}")
    return "".join(f"{line}\n" for line in lines)


def parse_overrides(text: str) -> dict[str, str]:
    """Returns the settings that overrides_text wrote."""
    found, before = {}, ""
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if not line.startswith("#"):
            found[f"{VERBATIM}{key}" if before == f"{_UNCHECKED}{key}" else key] = value
        before = line
    return found


def jvm_text(arguments: Sequence[str]) -> str:
    """Returns jvm.conf with one JVM argument per line."""
    return "".join(f"{argument}\n" for argument in arguments)


def ip_arguments(platform: Platform) -> list[str]:
    """Returns the JVM arguments for the IP versions of a platform. The images set java.net.preferIPv4Stack, with which
    Java opens no IPv6 socket; of two equal arguments the last one applies ("Networking Properties")."""
    if not platform.has_ipv6:
        return []
    first = (platform.ip_families or [IpFamily.IPV4])[0]
    return [
        "-Djava.net.preferIPv4Stack=false",
        *(["-Djava.net.preferIPv6Addresses=true"] if first is IpFamily.IPV6 else []),
    ]


def check_config(component: Component, values: Mapping[str, str] | None) -> list[str]:
    """Returns why a user's config is refused, one sentence per key; empty if it is accepted."""
    given = values or {}
    found = (_config_problem(component, key, value) for key, value in sorted(given.items()))
    twice = (key for key in sorted(given) if f"{VERBATIM}{key}" in given)
    field = CONFIG_FIELDS[component]
    return [problem for problem in found if problem] + [
        f'{field} has both "{key}" and "{VERBATIM}{key}", which set the same key. Remove one of them' for key in twice
    ]


def _config_problem(component: Component, key: str, value: str) -> str | None:
    field = CONFIG_FIELDS[component]
    if not _KEY.fullmatch(key):
        return f"{field} key {key[:80]!r} is not a configuration key. Only letters, digits, _ . and - are allowed"
    if why := reserved_because(component, key.removeprefix(VERBATIM)):
        return f'{field} key "{key}" is reserved, because {why}'
    if _CONTROL.search(value):
        return f'{field} key "{key}" has a value with a line break or control character. Remove the character'
    stripped = value.rstrip()
    if (len(stripped) - len(stripped.rstrip("\\"))) % 2:
        return (
            f'{field} key "{key}" has a value that ends with a single backslash, which continues a line in '
            "properties files. Double the backslash"
        )
    return None


def reserved_because(component: Component, key: str) -> str | None:
    """Returns why a key of a component is reserved, and which field to use instead, as a message. None if it is not
    reserved."""
    table = Component.ZOOKEEPER if component is Component.CONFIGURATION_STORE else component
    if why := RESERVED.get(table, {}).get(key):
        return why
    for prefix, reason in RESERVED_PREFIXES.get(table, {}).items():
        if key.startswith(prefix):
            return reason
    return None


def check_jvm(field: str, jvm: Jvm | None) -> list[str]:
    """Returns why JVM options are refused. ``field`` is the path of the Jvm in the spec."""
    problems = []
    for number, option in enumerate((jvm.options if jvm else None) or ()):
        shown = option.partition("=")[0][:80]
        if _CONTROL.search(option) or option != option.strip():
            problems.append(
                f"{field}.options[{number}] has a line break or outer space. Write one argument in each entry"
            )
        elif not option.startswith("-") or option in _FORBIDDEN_JVM:
            problems.append(f"{field}.options[{number}] is not a JVM option. Write an option such as -XX:+UseG1GC")
        elif option.startswith(_TYPED_JVM):
            problems.append(
                f"{field}.options entry {shown!r} is reserved. Use {field}.heap or {field}.directMemory instead"
            )
    return problems


def for_autorecovery(values: Mapping[str, str] | None) -> dict[str, str]:
    """Returns the part of spec.bookkeeper.config that auto-recovery reads and bookies ignore."""
    return {key: value for key, value in (values or {}).items() if _is_autorecovery(key)}


def for_bookies(values: Mapping[str, str] | None) -> dict[str, str]:
    """Returns the rest of spec.bookkeeper.config, so that a change restarts only the pods it applies to."""
    return {key: value for key, value in (values or {}).items() if not _is_autorecovery(key)}


def _is_autorecovery(key: str) -> bool:
    return key in AUTORECOVERY_KEYS or key.startswith(AUTORECOVERY_PREFIXES)
