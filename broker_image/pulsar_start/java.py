"""The Java command line. Pure but for looking for the program."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pulsar_start.components import Component, arguments
from pulsar_start.errors import StartError
from pulsar_start.paths import Paths

_OPENED = (
    "java.base/java.io",
    "java.base/java.util.zip",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)

_METADATA = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"

SMALL_HEAP = ("-Xms64m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m", "-XX:+UseSerialGC")
"""Used when there is no jvm.conf: starts anywhere, serves nothing big."""

OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
"""Variables from which Java itself takes arguments."""


def find_java(environ: Mapping[str, str]) -> str:
    """JAVA_HOME first, then PATH."""
    if home := environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        if os.access(java, os.X_OK):
            return str(java)
        raise StartError(f"JAVA_HOME has no program {java}")
    if found := shutil.which("java", path=environ.get("PATH")):
        return found
    raise StartError("no java: JAVA_HOME is not set and there is none on PATH")


def parse_jvm_conf(text: str) -> list[str]:
    """One JVM argument a line; blank lines and lines that start with # are skipped."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


def command(component: Component, *, java: str, conf: Path, paths: Paths, jvm: Sequence[str]) -> list[str]:
    """argv. `jvm` comes after our own, because of two equal JVM arguments the last counts."""
    return [
        java,
        # The conf folder comes first, as in Pulsar's own script: log4j2.yaml is found on the class path.
        *("-cp", f"{paths.stock_conf}:{paths.home}/lib/*"),
        *_fixed(paths, component),
        *component.jvm,
        *jvm,
        component.main_class,
        *arguments(component, str(conf), paths),
    ]


def _fixed(paths: Paths, component: Component) -> list[str]:
    return [
        *(f"--add-opens={module}=ALL-UNNAMED" for module in _OPENED),
        "--enable-native-access=ALL-UNNAMED",
        "-Djava.net.preferIPv4Stack=true",
        "-Djute.maxbuffer=10485760",
        "-Dzookeeper.clientTcpKeepAlive=true",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Dorg.apache.pulsar.shade.io.netty.tryReflectionSetAccessible=true",
        "-Dio.netty.recycler.maxCapacityPerThread=4096",
        f"-Dbookkeeper.metadata.bookie.drivers={_METADATA}BookieDriver",
        f"-Dbookkeeper.metadata.client.drivers={_METADATA}ClientDriver",
        # A process out of memory ends and is started again; half of one would go on holding its locks.
        "-XX:+ExitOnOutOfMemoryError",
        "-Dpulsar.allocator.exit_on_oom=true",
        "-XX:+PerfDisableSharedMem",
        f"-XX:ErrorFile={paths.logs}/hs_err_pid%p.log",
        "-Dlog4j2.is.webapp=false",
        "-Dlog4j.configurationFile=log4j2.yaml",
        "-Dpulsar.log.appender=Console",
        "-Dpulsar.log.level=info",
        "-Dpulsar.log.root.level=info",
        # The stock log4j2.yaml opens this file whatever the appender; it stays empty.
        f"-Dpulsar.log.dir={paths.logs}",
        f"-Dpulsar.log.file={component.name}.log",
    ]
