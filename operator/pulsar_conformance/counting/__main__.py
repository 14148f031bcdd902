"""Count messages while something is done to a cluster by hand: ``python -m pulsar_conformance.counting --topic ...``.

Exit code 0 when delivery was as promised, 1 when it was not: lines of the report that begin with VIOLATION, that is
confirmed messages that were lost. With --strict also 1 for lines that begin with FAILED: sends without a confirmation,
errors that clients received, messages out of order or of others, a pause as long as the send timeout. 2 when the run
could not begin.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pulsar

from pulsar_conformance.counting.client import TYPES, CountingError, CountingRun
from pulsar_conformance.credentials import Token

_EVERY = 2.0


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m pulsar_conformance.counting", description=__doc__)
    add = parser.add_argument
    add("--service-url", required=True, help="such as pulsar://127.0.0.1:6650")
    add("--read-url", help="consume there, when that is another cluster")
    add("--topic", required=True)
    add("--subscription", default="counting", help="removed at the end")
    add("--type", default="Exclusive", choices=list(TYPES), help="subscription type")
    add("--rate", type=float, default=200, help="messages/s, all producers together")
    add("--seconds", type=float, default=30, help="how long to publish; Ctrl-C ends it early")
    add("--drain", type=float, default=60, help="seconds to wait for what is confirmed and not received")
    add("--keys", type=int, default=16)
    add("--size", type=int, default=0, help="bytes of a message")
    add("--producers", type=int, default=1)
    add("--consumers", type=int, default=1)
    add("--batching", action="store_true")
    add("--send-timeout", type=float, default=30, help="seconds")
    add("--token-file", type=Path, help="file with the token to authenticate with; read at each connection")
    add("--ca-file", "--trust-certs", help="PEM file with the authorities of the servers, for pulsar+ssl")
    add("--strict", action="store_true", help="exit code 1 for anything that failed, not for violations alone")
    add("--json", type=Path, help="write the report there too")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print a line every 2 s and the report; returns the exit code."""
    given = arguments(argv)
    try:
        token = pulsar.AuthenticationToken(Token(file=given.token_file).supplier()) if given.token_file else None
        run = CountingRun(
            given.service_url,
            given.topic,
            given.subscription,
            rate=given.rate,
            keys=given.keys,
            size=given.size,
            producers=given.producers,
            consumers=given.consumers,
            subscription_type=given.type,
            batching=given.batching,
            read_url=given.read_url,
            authentication=token,
            trust_certs=given.ca_file,
            send_timeout=given.send_timeout,
        )
        with run:
            # What is done meanwhile is not known here, so every duplicate may have its reason.
            with run.operation("by hand", settle_within=None):
                watch(run, given.seconds)
            report = run.finish(given.drain)
    except (CountingError, OSError, ValueError) as problem:
        print(problem, file=sys.stderr)
        return 2
    print(report.text())
    if given.json:
        given.json.write_text(json.dumps(report.as_json(), indent=2) + "\n")
    return 1 if (report.failures() if given.strict else report.violations()) else 0


def watch(run: CountingRun, seconds: float) -> None:
    """Print the progress until the time is over or the user has enough."""
    end = time.monotonic() + seconds
    try:
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _EVERY))
            print(run.progress().line(), flush=True)
    except KeyboardInterrupt:
        print("draining", flush=True)


if __name__ == "__main__":
    sys.exit(main())
