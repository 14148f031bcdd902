"""The process: command line, exit codes and signals. runtime.py connects the components that it runs."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from pulsar_operator import __version__, logs
from pulsar_operator.export import ExportError, Options, export
from pulsar_operator.export.options import add_arguments, options_of
from pulsar_operator.runtime import EXIT_FAILED, EXIT_USAGE, operate, release
from pulsar_operator.settings import SettingsError, load


def main(argv: Sequence[str] | None = None) -> None:
    """Runs ``pulsar-operator`` and exits with 0, 1 (failed) or 2 (wrong usage or settings)."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """Runs a command line and returns the exit code."""
    parser = argparse.ArgumentParser(prog="pulsar-operator", description="Kubernetes operator for Apache Pulsar.")
    commands = parser.add_subparsers(dest="command", metavar="command")
    commands.add_parser("run", help="watch and reconcile (default)")
    restoring = commands.add_parser(
        "release-finalizers",
        help="remove the finalizers of this operator from all its custom resources, before the operator is uninstalled",
    )
    restoring.add_argument(
        "--wait",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help=("how long to wait until the running operator has ended"),
    )
    exporting = commands.add_parser(
        "export", help="write the tenants, namespaces and topics of a running Pulsar as manifests"
    )
    add_arguments(exporting)
    commands.add_parser("version", help="print the version")
    options = parser.parse_args(list(argv))
    if options.command == "version":
        print(__version__)
        return 0
    if options.command == "export":
        return _export(options_of(exporting, options))
    try:
        settings = load()
    except SettingsError as error:
        print(f"pulsar-operator: {error}", file=sys.stderr)
        return EXIT_USAGE
    logs.configure(level=settings.log_level, style=settings.log_format)
    try:
        if options.command == "release-finalizers":
            return asyncio.run(release(settings, wait=options.wait))
        return asyncio.run(operate(settings))
    except RuntimeError as error:
        print(f"pulsar-operator: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_FAILED


def _export(options: Options) -> int:
    try:
        return asyncio.run(export(options))
    except ExportError as error:
        print(f"pulsar-operator: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_FAILED
