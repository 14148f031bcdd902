"""``python -m pulsar_sizing COMMAND``: the collector and the Spark job, each imported only when it runs."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from importlib import import_module

from pulsar_sizing import logs, settings

EXIT_FAILED = 1
EXIT_USAGE = 2
COMMANDS = {
    "collect": "sample broker statistics of every broker into the store, delete old days, serve results",
    "expire": "delete days past retention and what killed writers left, once",
    "serve": "serve sizing results and the last round from the store, without sampling",
    "size": "work out bundles from recorded traffic and store the result",
    "report": "work out bundles from recorded traffic and print a report",
}
JOB = ("size", "report")
"""Commands of pulsar_sizing.job.cli, which reads its own options: main([command, *options])."""
STORE_OPTIONS = ("instance", "root", "s3_endpoint", "s3_region", "s3_addressing", "log_level", "log_format")
OPTIONS = {
    "collect": (),
    "expire": (*STORE_OPTIONS, "retention_days"),
    "serve": (*STORE_OPTIONS, "listen"),
}
"""Settings that are options of a command; none = all."""


def run(argv: Sequence[str]) -> int:
    """Run a command line; returns the exit code: 0, 1 (failed) or 2 (wrong use or settings)."""
    if argv and argv[0] in JOB:
        return int(import_module("pulsar_sizing.job.cli").main(list(argv)) or 0)
    parser = argparse.ArgumentParser(
        prog="python -m pulsar_sizing",
        description="Recorded traffic of Apache Pulsar and bundles sized from it.",
        epilog=f"Every option of collect, expire and serve is also a variable {settings.PREFIX}<OPTION>.",
    )
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, words in COMMANDS.items():
        command = commands.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".")
        if name in OPTIONS:
            settings.add_arguments(command, OPTIONS[name])
        if name == "collect":
            command.add_argument("--once", action="store_true", help="one round, printed; 1 unless all answered")
    options = parser.parse_args(list(argv))
    try:
        values = settings.load(options)
        if options.command == "collect" and not values.cluster:
            raise settings.SettingsError(f"--cluster ({settings.PREFIX}CLUSTER) is needed: NAME=ADMIN-URL of a cluster")
    except settings.SettingsError as error:
        print(f"pulsar-sizing: {error}", file=sys.stderr)
        return EXIT_USAGE
    logs.configure(level=values.log_level, style=values.log_format)
    return _command(options, values)


def _command(options: argparse.Namespace, values: settings.Settings) -> int:
    # Here and not above: pyarrow takes a second to import, which --help and the Spark job need not wait for.
    collector = import_module("pulsar_sizing.collector.run")
    errors = (OSError, import_module("pulsar_sizing.store").StoreError)
    try:
        match options.command:
            case "collect":
                return int(asyncio.run(collector.collect(values, once=options.once)))
            case "serve":
                return int(asyncio.run(collector.serve(values)))
            case _:
                return int(collector.expire(values))
    except errors as error:
        print(f"pulsar-sizing: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_FAILED


def main() -> None:
    """Entry point; exits with the code of :func:`run`."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
