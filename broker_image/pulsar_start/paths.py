"""Where things are. Defaults are the layout of the images; each can be moved by an environment variable.

| variable                | default               | what                                              |
|-------------------------|-----------------------|---------------------------------------------------|
| PULSAR_HOME             | /pulsar               | the unpacked distribution (conf/, lib/), read only |
| PULSAR_DATA             | $PULSAR_HOME/data     | the volumes                                       |
| PULSAR_LOGS             | $PULSAR_HOME/logs     | logs that cannot go to stdout, crash reports      |
| PULSAR_RENDERED         | $PULSAR_HOME/conf-rendered | the configuration this program writes        |
| PULSAR_OPERATOR_CONFIG  | /etc/pulsar-operator/config | overrides.conf and jvm.conf                 |

Moving them is how the program runs outside a container, from an unpacked tarball.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("PULSAR_HOME", "PULSAR_DATA", "PULSAR_LOGS", "PULSAR_RENDERED", "PULSAR_OPERATOR_CONFIG")
"""The variables of the table."""


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Every folder the start program reads or writes."""

    home: Path
    data: Path
    logs: Path
    rendered: Path
    config: Path

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Paths":
        home = Path(environ.get("PULSAR_HOME") or "/pulsar")
        return cls(
            home=home,
            data=Path(environ.get("PULSAR_DATA") or home / "data"),
            logs=Path(environ.get("PULSAR_LOGS") or home / "logs"),
            rendered=Path(environ.get("PULSAR_RENDERED") or home / "conf-rendered"),
            config=Path(environ.get("PULSAR_OPERATOR_CONFIG") or "/etc/pulsar-operator/config"),
        )

    @property
    def stock_conf(self) -> Path:
        """The configuration files that come with the distribution."""
        return self.home / "conf"

    @property
    def zookeeper(self) -> Path:
        """The ZooKeeper volume: data, myid and the membership."""
        return self.data / "zookeeper"

    @property
    def standalone(self) -> Path:
        """The standalone volume."""
        return self.data / "standalone"
