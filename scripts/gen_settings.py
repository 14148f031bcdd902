"""Writes which settings a version of Pulsar knows, from the server's own jars and configuration files:

    .venv/bin/python scripts/gen_settings.py ~/.cache/pulsar-operator/pulsar/apache-pulsar-4.0.8
    .venv/bin/python helm/sync_charts.py

The result is operator/pulsar_operator/data/settings/<version>.json. ``--check`` compares and writes nothing. Not every
setting is in a file of conf/, so the fields and constants of the classes that read settings count as well. Class files
are read without Java (Java Virtual Machine Specification, chapter 4).
"""

from __future__ import annotations

import argparse
import json
import re
import struct
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "operator" / "pulsar_operator" / "data" / "settings"
_SETTING = re.compile(r"^ *#? ?([A-Za-z][\w.\-]*) ?=", re.MULTILINE)
"""In a configuration file; also one that is commented out."""
_NAME = re.compile(r"[A-Za-z4][\w.\-]*")
"""4lw.commands.whitelist of ZooKeeper begins with a digit."""
STATIC = 0x0008
BROKER, BOOKIE, PROXY, ZOOKEEPER, STANDALONE = "broker", "bookie", "proxy", "zookeeper", "standalone"

FIELDS = {
    BROKER: (
        "org/apache/pulsar/broker/ServiceConfiguration",
        "org/apache/pulsar/common/policies/data/OffloadPoliciesImpl",
    ),
    PROXY: ("org/apache/pulsar/proxy/server/ProxyConfiguration",),
}
"""Classes whose fields are filled by the name of the setting."""
NO_SETTINGS = frozenset({"properties"})
CONSTANTS = {
    BOOKIE: (
        "org/apache/bookkeeper/conf/AbstractConfiguration",
        "org/apache/bookkeeper/conf/ClientConfiguration",
        "org/apache/bookkeeper/conf/ServerConfiguration",
        "org/apache/bookkeeper/client/RackawareEnsemblePlacementPolicyImpl",
        "org/apache/bookkeeper/client/RegionAwareEnsemblePlacementPolicy",
        "org/apache/bookkeeper/net/CommonConfigurationKeys",
        "org/apache/bookkeeper/stats/prometheus/PrometheusMetricsProvider",
        "org/apache/bookkeeper/bookie/storage/ldb/DbLedgerStorage",
        "org/apache/bookkeeper/bookie/storage/ldb/KeyValueStorageRocksDB",
        "org/apache/bookkeeper/bookie/storage/ldb/SingleDirectoryDbLedgerStorage",
    ),
}
"""Classes whose constants are names of settings."""
FILES = {
    BROKER: "broker.conf",
    BOOKIE: "bookkeeper.conf",
    PROXY: "proxy.conf",
    ZOOKEEPER: "zookeeper.conf",
    STANDALONE: "standalone.conf",
}
ZOOKEEPER_PARSER = "org/apache/zookeeper/server/quorum/QuorumPeerConfig"
"""Its texts are names of settings. Every other key of zoo.cfg becomes a system property: zookeeper.<key>."""
ZOOKEEPER_PREFIX = "zookeeper."
NO_ZOOKEEPER_SETTINGS = frozenset(
    [
        "QuorumLearner",
        "QuorumServer",
        "configuration",
        "false",
        "group",
        "observer",
        "participant",
        "true",
        "version",
        "weight",
        "x509",
    ]
)
"""Texts of the parser that are values, or parts of names."""


class NoServerError(ValueError):
    """The folder is not that of a Pulsar server; the message says what is missing."""


@dataclass(frozen=True)
class ClassFile:
    """What of a class file is asked for."""

    texts: frozenset[str]
    """Texts that its code or its constants use."""
    constants: frozenset[str]
    """Texts of its constants."""
    fields: frozenset[str]
    """Names of fields that are not static."""


def read_class(data: bytes) -> ClassFile:
    """Read a class file."""
    magic, _, _, count = struct.unpack_from(">IHHH", data)
    assert magic == 0xCAFEBABE, "no class file"
    names: dict[int, str] = {}
    texts: dict[int, int] = {}
    at, index = 10, 1
    while index < count:
        tag = data[at]
        if tag == 1:
            (length,) = struct.unpack_from(">H", data, at + 1)
            names[index] = data[at + 3 : at + 3 + length].decode("utf-8", "replace")
            at += 3 + length
        else:
            if tag == 8:
                (texts[index],) = struct.unpack_from(">H", data, at + 1)
            at += {7: 3, 8: 3, 16: 3, 19: 3, 20: 3, 15: 4, 5: 9, 6: 9}.get(tag, 5)
        index += 2 if tag in (5, 6) else 1
    at += 6
    (interfaces,) = struct.unpack_from(">H", data, at)
    at += 2 + 2 * interfaces
    (number,) = struct.unpack_from(">H", data, at)
    at += 2
    fields, constants = set(), set()
    for _ in range(number):
        flags, name, _, attributes = struct.unpack_from(">HHHH", data, at)
        at += 8
        if not flags & STATIC:
            fields.add(names[name])
        for _ in range(attributes):
            kind, length = struct.unpack_from(">HI", data, at)
            value = struct.unpack_from(">H", data, at + 6)[0] if names[kind] == "ConstantValue" else None
            if value in texts:
                constants.add(names[texts[value]])
            at += 6 + length
    return ClassFile(frozenset(names[each] for each in texts.values()), frozenset(constants), frozenset(fields))


class Server:
    """An unpacked Pulsar server."""

    def __init__(self, folder: Path) -> None:
        """Raises NoServerError."""
        self._folder = folder
        found = sorted((folder / "lib").glob("org.apache.pulsar-pulsar-broker-[0-9]*.jar"))
        if len(found) != 1:
            raise NoServerError(f"{folder}/lib has no pulsar-broker jar: name the folder of an unpacked Pulsar server")
        self.version = found[0].stem.removeprefix("org.apache.pulsar-pulsar-broker-")

    def settings(self) -> dict[str, list[str]]:
        """Names by table, sorted. Standalone lists what neither brokers nor bookies have."""
        found = {table: set(self._conf(file)) for table, file in FILES.items()}
        classes = self._classes()
        for table, names in FIELDS.items():
            for each in names:
                found[table] |= classes[each].fields - NO_SETTINGS
        for table, names in CONSTANTS.items():
            for each in names:
                found[table] |= set(_names(classes[each].constants))
        found[ZOOKEEPER] |= set(_names(classes[ZOOKEEPER_PARSER].texts))
        for name, each in classes.items():
            if name.startswith("org/apache/zookeeper/"):
                texts = (text for text in each.texts if text.startswith(ZOOKEEPER_PREFIX))
                found[ZOOKEEPER] |= set(_names(text.removeprefix(ZOOKEEPER_PREFIX) for text in texts))
        found[ZOOKEEPER] -= NO_ZOOKEEPER_SETTINGS
        found[STANDALONE] -= found[BROKER] | found[BOOKIE]
        return {table: sorted(names) for table, names in found.items()}

    def _conf(self, name: str) -> list[str]:
        return _SETTING.findall((self._folder / "conf" / name).read_text(encoding="utf-8"))

    def _classes(self) -> dict[str, ClassFile]:
        required = {each for names in (*FIELDS.values(), *CONSTANTS.values()) for each in names} | {ZOOKEEPER_PARSER}
        found: dict[str, ClassFile] = {}
        for jar in sorted((self._folder / "lib").glob("org.apache.*.jar")):
            zookeeper = jar.name.startswith("org.apache.zookeeper-zookeeper-3")
            with zipfile.ZipFile(jar) as archive:
                for entry in archive.namelist():
                    name = entry.removesuffix(".class")
                    if name != entry and (name in required or zookeeper):
                        found[name] = read_class(archive.read(entry))
        if missing := required - found.keys():
            raise NoServerError(f"no jar of {self._folder}/lib has {', '.join(sorted(missing))}")
        return found


def _names(texts: Iterable[str]) -> Iterator[str]:
    return (text for text in texts if _NAME.fullmatch(text) and not text.endswith("."))


def main() -> int:
    """Write or check the file of one server."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("server", type=Path, help="folder of an unpacked Pulsar server")
    parser.add_argument("--check", action="store_true", help="compare and write nothing")
    options = parser.parse_args()
    try:
        server = Server(options.server)
        text = json.dumps(server.settings(), indent=0) + "\n"
    except NoServerError as error:
        print(error, file=sys.stderr)
        return 2
    file = TARGET / f"{server.version}.json"
    if options.check:
        same = file.exists() and file.read_text(encoding="utf-8") == text
        print(f"{file.name}: {'current' if same else 'differs: run scripts/gen_settings.py without --check'}")
        return 0 if same else 1
    file.write_text(text, encoding="utf-8")
    print(f"{file}: {len(text.splitlines())} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
