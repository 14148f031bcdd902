"""Prove what an instance promises: ``python -m pulsar_conformance --service-url pulsar://... --admin-url http://...``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pulsar_conformance import report, skips
from pulsar_conformance.admin import AdminError
from pulsar_conformance.catalogue import all_checks, all_mutations, select
from pulsar_conformance.commands import fault_command, scale_command
from pulsar_conformance.context import Remote, Role
from pulsar_conformance.credentials import Access, Token
from pulsar_conformance.java.client import JavaProcess
from pulsar_conformance.mutate import run_mutations
from pulsar_conformance.runner import JavaMissingError, RemoteError, Target, instance, run_checks

TOKEN_VARIABLE = "CONFORMANCE_TOKEN"
ROLE_TOKEN_VARIABLE = "CONFORMANCE_ROLE_TOKEN"
FOREIGN_TOKEN_VARIABLE = "CONFORMANCE_FOREIGN_TOKEN"


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    found = argparse.ArgumentParser(
        prog="python -m pulsar_conformance", description=sys.modules["pulsar_conformance"].__doc__
    )
    found.add_argument("--service-url", default=os.environ.get("SERVICE_URL"), help="pulsar://host:6650")
    found.add_argument("--admin-url", default=os.environ.get("ADMIN_URL"), help="http://host:8080")
    found.add_argument(
        "--remote-service-url",
        default=os.environ.get("REMOTE_SERVICE_URL"),
        help="of another cluster of the same instance, for the checks of geo-replication",
    )
    found.add_argument("--remote-admin-url", default=os.environ.get("REMOTE_ADMIN_URL"), help="its admin REST")
    found.add_argument(
        "--foreign-service-url",
        default=os.environ.get("FOREIGN_SERVICE_URL"),
        help="of a cluster of another instance, for the check that they share nothing",
    )
    found.add_argument("--foreign-admin-url", default=os.environ.get("FOREIGN_ADMIN_URL"), help="its admin REST")
    found.add_argument("--tenant", default="conformance", help="made when it is not there (conformance)")
    found.add_argument("--only", action="append", default=[], metavar="REGEX", help="checks to run, may be repeated")
    found.add_argument("--workers", type=int, default=8, help="checks at the same time (8)")
    found.add_argument("--wait-limit", type=float, default=400, help="longest wait for the broker's own work, s (400)")
    found.add_argument("--token-file", type=Path, help=f"a superuser's token; or {TOKEN_VARIABLE}")
    found.add_argument(
        "--foreign-token-file",
        type=Path,
        help=f"a superuser's token there, which is the only one it gets; or {FOREIGN_TOKEN_VARIABLE}",
    )
    found.add_argument(
        "--token-host",
        action="append",
        default=[],
        metavar="HOST",
        help="admin REST may send the token on to this host, or to hosts that end with .SUFFIX; may be repeated",
    )
    found.add_argument("--ca-file", type=Path, help="PEM file with the authorities of the servers (the system's)")
    found.add_argument("--role", metavar="NAME", help="a role without rights, for the checks of permissions")
    found.add_argument("--role-token-file", type=Path, help=f"its token; or {ROLE_TOKEN_VARIABLE}")
    found.add_argument(
        "--scale-command",
        metavar="COMMAND",
        help="changes the number of brokers to {}: kubectl scale ... --replicas={}",
    )
    found.add_argument(
        "--fault-command",
        metavar="COMMAND",
        help="does {action} (kill, pause, resume) to {target}: see docs/conformance.md",
    )
    found.add_argument("--java-classpath", default=os.environ.get("CONFORMANCE_JAVA"), help="of the Java client")
    found.add_argument("--without-java", action="store_true", help="skip the checks that need the Java client")
    found.add_argument(
        "--expect-skips", action="store_true", help="fail when more is skipped than by examples/quickstart.yaml"
    )
    found.add_argument("--json", type=Path, metavar="FILE")
    found.add_argument("--junit", type=Path, metavar="FILE")
    found.add_argument("--mutations", action="store_true", help="break what each check proves and see it fail")
    found.add_argument("--list", action="store_true", help="name the checks and stop")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """0 when every promise held, 1 when one did not, 2 for a wrong call or an instance that does not answer."""
    arguments = parser().parse_args(argv)
    try:
        checks = select(all_checks(), arguments.only)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.list:
        for check in checks:
            print(f"{check.id:<44} {check.proves}")
        return 0
    if not arguments.service_url or not arguments.admin_url:
        print("needs --service-url and --admin-url (or SERVICE_URL and ADMIN_URL)", file=sys.stderr)
        return 2
    remote_urls = (arguments.remote_service_url or "", arguments.remote_admin_url or "")
    foreign_urls = (arguments.foreign_service_url or "", arguments.foreign_admin_url or "")
    for kind, urls in (("remote", remote_urls), ("foreign", foreign_urls)):
        if any(urls) and not all(urls):
            print(f"another cluster needs both: --{kind}-service-url and --{kind}-admin-url", file=sys.stderr)
            return 2
    try:
        role_token = _token(arguments.role_token_file, ROLE_TOKEN_VARIABLE)
        token = _token(arguments.token_file, TOKEN_VARIABLE)
        foreign_token = _token(arguments.foreign_token_file, FOREIGN_TOKEN_VARIABLE)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    access = Access(token, arguments.ca_file, tuple(arguments.token_host))
    log = Path(tempfile.mkstemp(prefix="conformance-client-", suffix=".log")[1])
    target = Target(
        arguments.service_url,
        arguments.admin_url,
        arguments.tenant,
        access,
        Role(arguments.role, role_token) if arguments.role and role_token else None,
        arguments.wait_limit,
        str(log),
        scale_command(arguments.scale_command),
        fault_command(arguments.fault_command),
        Remote(*remote_urls) if all(remote_urls) else None,
        Remote(*foreign_urls, access=replace(access, token=foreign_token)) if all(foreign_urls) else None,
    )
    try:
        with instance(target, None if arguments.without_java else partial(_java, arguments.java_classpath)) as found:
            beside = f" beside {found.remote.cluster}" if found.remote else ""
            apart = f", apart from {found.foreign.cluster}" if found.foreign else ""
            print(
                f"Pulsar {found.version} at {found.service_url}, {len(found.brokers)} broker(s) of "
                f"{found.settings['clusterName']}{beside}{apart}; run {found.run} in tenant {found.tenant}; "
                f"client log {log}",
                flush=True,
            )
            if arguments.mutations:
                return run_mutations(
                    found, checks, all_mutations(), workers=arguments.workers, json_file=arguments.json
                )
            begin = time.monotonic()
            outcomes = run_checks(
                found,
                checks,
                workers=arguments.workers,
                on_outcome=lambda outcome: print(report.line(outcome), flush=True),
                warned=lambda text: print(f"warning: {text}", flush=True),
            )
            seconds = time.monotonic() - begin
            if arguments.json:
                report.write_json(arguments.json, report.as_json(found, outcomes, seconds))
    except JavaMissingError as error:
        print(f"{error}; --without-java skips the checks that need it", file=sys.stderr)
        return 2
    except RemoteError as error:
        print(error, file=sys.stderr)
        return 2
    except (AdminError, OSError) as error:
        print(
            f"admin REST at {arguments.admin_url} does not answer a superuser's calls: {error}\n"
            f"next: curl -i {arguments.admin_url}/admin/v2/clusters",
            file=sys.stderr,
        )
        return 2
    if arguments.junit:
        report.write_junit(arguments.junit, outcomes, seconds)
    print(f"\n{report.table(outcomes)}\n\n{report.summary(outcomes, seconds)}")
    if javaless := skips.without_java(outcomes):
        print(f"{len(javaless)} not run for want of the Java client: {', '.join(one.check.id for one in javaless)}")
    surprises = skips.unexpected([one for one in outcomes if one not in javaless]) if arguments.expect_skips else []
    for line in surprises:
        print(line)
    return 0 if report.good(outcomes) and not surprises else 1


def _token(file: Path | None, variable: str) -> Token | None:
    """Raises OSError, ValueError for a file without a token."""
    text = os.environ.get(variable, "")
    found = Token(text, file) if file is not None or text else None
    if found is not None:
        found()
    return found


def _java(classpath: str | None) -> JavaProcess:
    if not classpath:
        raise RuntimeError("name its folder of jars: --java-classpath or CONFORMANCE_JAVA")
    return JavaProcess.start(classpath=classpath)


if __name__ == "__main__":
    sys.exit(main())
