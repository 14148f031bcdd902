"""The conformance suite on a standalone of a stock Pulsar: ``python -m tests.support.standalone.stock [--newer] ...``.

Stock: the settings of the distribution's own conf/standalone.conf, functions worker included; addresses, ports and the
folders for data are its own. All other arguments are those of ``python -m pulsar_conformance``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from e2e.kind import versions
from e2e.kind.paths import paths
from pulsar_conformance.__main__ import main as conformance
from tests.support.standalone.server import SERIAL, open_standalone

STOCK = {"brokerDeleteInactiveTopicsEnabled": "true"}
"""What other tests set otherwise."""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of the suite."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.standalone.stock", description=__doc__)
    parser.add_argument("--newer", action="store_true", help=f"{versions.NEWER_PULSAR}, not {versions.PULSAR}")
    arguments, others = parser.parse_known_args(argv)
    home = paths().newer_pulsar_home if arguments.newer else paths().pulsar_home
    with (
        tempfile.TemporaryDirectory(prefix="stock-pulsar-", ignore_cleanup_errors=True) as folder,
        open_standalone(home, Path(folder), STOCK, within=300, jvm=SERIAL, functions=True) as running,
    ):
        urls = ["--service-url", running.service_url, "--admin-url", running.admin_url]
        return conformance([*urls, "--java-classpath", str(paths().java_client), *others])


if __name__ == "__main__":
    sys.exit(main())
