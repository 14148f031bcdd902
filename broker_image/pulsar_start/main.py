"""Puts the pieces together: arguments and environment in, a running Java out."""

import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from pulsar_start import java, layering, zookeeper
from pulsar_start.advertised import await_listeners
from pulsar_start.components import COMPONENTS, Component, component_named
from pulsar_start.errors import StartError
from pulsar_start.files import read, read_if_there, write_atomically
from pulsar_start.identity import identity
from pulsar_start.own_name import await_own_name
from pulsar_start.paths import Paths
from pulsar_start.probe import probe_zookeeper
from pulsar_start.rack import await_rack
from pulsar_start.registration import await_registration

USAGE = f"usage: pulsar_start {{{'|'.join(COMPONENTS)}}} | pulsar_start probe zookeeper"


@dataclass(frozen=True, kw_only=True)
class Start:
    """Everything that becomes the new process."""

    argv: list[str]
    environ: dict[str, str]
    folder: Path


def main(arguments: Sequence[str]) -> int:
    """Returns only for a probe or an error; a start that works replaces this process."""
    try:
        match list(arguments):
            case ["probe", "zookeeper"]:
                ready, reason = probe_zookeeper()
                print(reason)
                return 0 if ready else 1
            case [name]:
                # Process 1 of a container gets no signal that it has no handler for (pid_namespaces(7)), and whoever
                # deletes a pod would wait for its whole grace period. Java, which comes next, has its own.
                signal.signal(signal.SIGTERM, _end)
                start = prepare(component_named(name), os.environ, _say)
            case _:
                print(USAGE, file=sys.stderr)
                return 2
        # Java becomes process 1 of the container and gets the SIGTERM itself.
        os.chdir(start.folder)
        os.umask(0o077)
        os.execve(start.argv[0], start.argv, start.environ)
    except StartError as error:
        print(f"pulsar_start: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"pulsar_start: cannot start: {error}", file=sys.stderr)
        return 1


def prepare(component: Component, environ: Mapping[str, str], say: Callable[[str], None]) -> Start:
    """Writes the configuration and says what was overridden."""
    layering.check_variables(environ)
    paths = Paths.from_environ(environ)
    overrides = _overrides(component, paths, environ)
    for line in layering.describe(overrides):
        say(f"{component.name}: {line}")
    tuning = _tuning(paths, environ)
    if component.name == "zookeeper":
        zookeeper.check_arguments([*tuning, *_of_java_itself(environ)], paths)
        server = zookeeper.Server.from_environ(environ)
        prepared = zookeeper.prepare(server, paths, overrides)
        for note in prepared.notes:
            say(f"{component.name}: {note}")
        await_own_name(prepared.hosts, lambda line: say(f"{component.name}: {line}"))
        if prepared.lost:
            say(f"{component.name}: {zookeeper.await_leader(server)} leads a quorum")
        conf, computed = prepared.conf, prepared.jvm
    else:
        conf, computed = paths.rendered / component.conf_file, []
        stock = read(paths.stock_conf / component.conf_file)
        if component.name == "bookie":
            overrides |= _await_turn(stock, overrides, tuning, environ, lambda line: say(f"{component.name}: {line}"))
        if component.name == "broker":
            overrides |= await_listeners(environ, lambda line: say(f"{component.name}: {line}"))
        write_atomically(conf, layering.layer(stock, overrides))
    say(f"{component.name}: java {layering.describe_arguments(tuning)}")
    # What is computed protects data, so it comes last and counts.
    argv = java.command(component, java=java.find_java(environ), conf=conf, paths=paths, jvm=[*tuning, *computed])
    return Start(argv=argv, environ=_java_environ(environ), folder=paths.home)


def _await_turn(
    stock: str,
    overrides: Mapping[str, str],
    tuning: Sequence[str],
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> dict[str, str]:
    """The settings of a bookie's id. It must not register before its rack is known, and cannot before an earlier
    process's session is over."""
    arguments = [*tuning, *(environ.get(name, "") for name in java.OPTION_VARIABLES)]
    conf = dict(layering.parse(layering.layer(stock, overrides)))
    own = identity(conf, arguments, say)
    rack = await_rack(environ)
    if rack is not None:
        say(rack)
    await_registration(conf | own, arguments, say)
    return own


def _overrides(component: Component, paths: Paths, environ: Mapping[str, str]) -> dict[str, str]:
    """Weakest first: the component's defaults, the operator's ConfigMap, the pod's environment."""
    source = paths.config / "overrides.conf"
    text = read_if_there(source) or ""
    return {
        **component.defaults,
        **layering.parse_overrides(text, str(source)),
        **layering.overrides_of_environment(environ),
    }


def _tuning(paths: Paths, environ: Mapping[str, str]) -> list[str]:
    """The user's JVM arguments: jvm.conf, or the small heap where there is none, then PULSAR_EXTRA_OPTS."""
    text = read_if_there(paths.config / "jvm.conf")
    own = java.SMALL_HEAP if text is None else java.parse_jvm_conf(text)
    return [*own, *_words("PULSAR_EXTRA_OPTS", environ)]


def _of_java_itself(environ: Mapping[str, str]) -> list[str]:
    """Arguments that Java takes from its environment, before those of the command line ("The JDK_JAVA_OPTIONS Launcher
    Environment Variable" of the command java, and "The JAVA_TOOL_OPTIONS Environment Variable" of its guide)."""
    return [word for name in java.OPTION_VARIABLES for word in _words(name, environ)]


def _words(name: str, environ: Mapping[str, str]) -> list[str]:
    try:
        return shlex.split(environ.get(name, ""))
    except ValueError as error:
        raise StartError(f"{name}: {error}") from error


def _java_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Java does not need the pod's values a second time, least of all the secret ones."""
    kept = {
        name: value
        for name, value in environ.items()
        if name != "ZOO_SUPER_DIGEST" and not name.startswith(layering.ENVIRONMENT_PREFIX)
    }
    # As Pulsar's own environment script sets it; the exporter itself stays off unless configured.
    return {"OTEL_SEMCONV_STABILITY_OPT_IN": "jvm", **kept}


def _end(number: int, _frame: FrameType | None) -> None:
    """Ends at the next step of the interpreter, and tells the status of a process that a signal ended."""
    raise SystemExit(128 + number)


def _say(line: str) -> None:
    print(f"pulsar_start: {line}", flush=True)
