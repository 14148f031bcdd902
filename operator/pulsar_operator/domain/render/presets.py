"""Resources and JVM settings by preset and component, but never replicas.

The memory of a container follows from its JVM: heap + direct memory + an allowance for metaspace, threads and code. A
user who raises spec.<component>.jvm.heap therefore gets the memory with it. spec.<component>.resources replaces
requests and limits as a whole. There is no CPU limit: throttled JVMs start slowly and fail their probes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.base import Jvm, Preset, Resources

_JAVA_SIZE = re.compile(r"(\d+)([kKmMgG])")
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC")
_MIB = {"k": 1 / 1024, "m": 1.0, "g": 1024.0}


NAME_CACHE = "-Dsun.net.inetaddr.ttl=5"
"""JVM argument with the seconds for which a resolved name is cached. A pod's name has another address after each
restart; Pulsar would keep the old one for up to 60 s (DnsResolverUtil of 4.0) and time out on it, 10 s per attempt
(observed through a proxy)."""


@dataclass(frozen=True)
class Sizing:
    """Sizes of one component in one preset. Memory in MiB."""

    heap: int
    direct: int | None
    """Maximum direct memory; None for the JVM's default, which is the heap size."""
    cpu: str
    """CPU request."""
    initial_heap: int
    requested_overhead: int
    """Requested memory beyond the heap (and, in preset Production, beyond direct memory)."""
    limit_overhead: int
    """Memory limit beyond heap and direct memory."""


@dataclass(frozen=True)
class PresetValues:
    """One preset: garbage collector, sizes and configuration of each component."""

    collector: tuple[str, ...]
    requests_include_direct: bool
    """Whether the memory request includes direct memory, as opposed to the limit only."""
    sizing: Mapping[Component, Sizing]
    config: Mapping[Component, Mapping[str, str]]
    """Configuration that the sizes require. A user's config takes precedence."""


_SMALL_BOOKIE = {
    "dbStorage_writeCacheMaxSizeMb": "16",
    "dbStorage_readAheadCacheMaxSizeMb": "16",
    "dbStorage_rocksDB_blockCacheSize": "8388608",
    "dbStorage_rocksDB_writeBufferSizeMB": "8",
    "journalPreAllocSizeMB": "1",
    "journalMaxSizeMB": "64",
    "numJournalCallbackThreads": "1",
    "numReadWorkerThreads": "2",
    "numHighPriorityWorkerThreads": "2",
}
_SMALL_BROKER = {
    "managedLedgerCacheSizeMB": "16",
    "maxMessagePublishBufferSizeInMB": "32",
    "numIOThreads": "2",
    "numHttpServerThreads": "8",
    "numOrderedExecutorThreads": "2",
    "numCacheExecutorThreadPoolSize": "2",
    "topicOrderedExecutorThreadNum": "2",
    "managedLedgerNumSchedulerThreads": "2",
    "bookkeeperClientNumWorkerThreads": "2",
    "bookkeeperClientNumIoThreads": "2",
    "bookkeeperNumberOfChannelsPerBookie": "2",
}

SMALL = PresetValues(
    # Measured: bookie and broker hold 543 and 973 MB with Pulsar's default collector, 233 and 371 MB with this one.
    collector=("-XX:+UseSerialGC",),
    requests_include_direct=False,
    sizing={
        Component.ZOOKEEPER: Sizing(96, None, "50m", 32, 64, 192),
        Component.CONFIGURATION_STORE: Sizing(96, None, "50m", 32, 64, 192),
        Component.BOOKIE: Sizing(160, 128, "50m", 64, 96, 256),
        Component.AUTORECOVERY: Sizing(96, 64, "50m", 32, 64, 160),
        Component.BROKER: Sizing(256, 192, "100m", 64, 128, 320),
        Component.PROXY: Sizing(128, 128, "50m", 32, 64, 192),
        Component.STANDALONE: Sizing(384, 256, "100m", 64, 192, 384),
    },
    config={
        Component.BOOKIE: _SMALL_BOOKIE,
        Component.AUTORECOVERY: {"auditorMaxNumberOfConcurrentOpenLedgerOperations": "50"},
        Component.BROKER: _SMALL_BROKER,
        Component.PROXY: {"numIOThreads": "2", "httpNumThreads": "8"},
        Component.STANDALONE: {**_SMALL_BROKER, "webSocketServiceEnabled": "false"},
    },
)

PRODUCTION = PresetValues(
    # G1: steady pauses at a few GiB of heap, and unlike ZGC no extra memory to reserve. spec.<component>.jvm.options
    # may choose another.
    collector=("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:+ParallelRefProcEnabled"),
    requests_include_direct=True,
    sizing={
        Component.ZOOKEEPER: Sizing(512, None, "250m", 512, 256, 512),
        Component.CONFIGURATION_STORE: Sizing(512, None, "250m", 512, 256, 512),
        Component.BOOKIE: Sizing(2048, 2048, "1", 2048, 512, 1024),
        Component.AUTORECOVERY: Sizing(512, 256, "250m", 512, 256, 512),
        Component.BROKER: Sizing(2048, 4096, "1", 2048, 512, 1024),
        Component.PROXY: Sizing(1024, 1024, "500m", 1024, 256, 512),
        Component.STANDALONE: Sizing(2048, 2048, "1", 2048, 512, 1024),
    },
    config={},
)


def preset_values(preset: Preset) -> PresetValues:
    """Returns the values of a preset."""
    return SMALL if preset is Preset.SMALL else PRODUCTION


def mebibytes(java_size: str) -> float:
    """Returns a Java memory size such as 512m in MiB. Raises ValueError for anything else."""
    match = _JAVA_SIZE.fullmatch(java_size)
    if match is None:
        raise ValueError(f"{java_size!r} is not a Java memory size such as 512m")
    return int(match[1]) * _MIB[match[2].lower()]


def heap_mebibytes(component: Component, preset: Preset, jvm: Jvm | None) -> float:
    """Returns the maximum heap of the component in MiB."""
    chosen = jvm.heap if jvm else None
    return mebibytes(chosen) if chosen else preset_values(preset).sizing[component].heap


def direct_mebibytes(component: Component, preset: Preset, jvm: Jvm | None) -> float | None:
    """Returns the maximum direct memory of the component in MiB; None for the JVM's default, the size of the heap."""
    chosen = jvm.direct_memory if jvm else None
    return mebibytes(chosen) if chosen else preset_values(preset).sizing[component].direct


def jvm_arguments(component: Component, preset: Preset, jvm: Jvm | None) -> list[str]:
    """Returns the arguments for jvm.conf. The user's options come last."""
    values = preset_values(preset)
    sizing = values.sizing[component]
    heap = jvm.heap if jvm else None
    arguments = [f"-Xms{heap}", f"-Xmx{heap}"] if heap else [f"-Xms{sizing.initial_heap}m", f"-Xmx{sizing.heap}m"]
    direct = jvm.direct_memory if jvm else None
    if direct or sizing.direct:
        arguments.append(f"-XX:MaxDirectMemorySize={direct or f'{sizing.direct}m'}")
    if jvm and jvm.heap_dump_path:
        arguments += ["-XX:+HeapDumpOnOutOfMemoryError", f"-XX:HeapDumpPath={jvm.heap_dump_path}"]
    if jvm and jvm.gc_log_path:
        arguments.append(f"-Xlog:gc*:file={jvm.gc_log_path}:time,uptime,level,tags:filecount=5,filesize=20M")
    options = (jvm.options if jvm else None) or []
    # Two collectors are an error of the JVM, so a user's choice replaces the preset's and what tunes it.
    collector = () if any(_COLLECTOR.fullmatch(option) for option in options) else values.collector
    return [*arguments, NAME_CACHE, *collector, *options]


def container_resources(
    component: Component, preset: Preset, jvm: Jvm | None, resources: Resources | None
) -> dict[str, Any]:
    """Returns requests and limits of the container. ``resources`` replaces the preset's as a whole: a mixture could be
    inconsistent, such as a request above the preset's limit."""
    if resources is not None:
        given = {"requests": resources.requests, "limits": resources.limits}
        return {key: {k: str(v) for k, v in value.items()} for key, value in given.items() if value}
    values = preset_values(preset)
    sizing = values.sizing[component]
    heap, direct = heap_mebibytes(component, preset, jvm), direct_mebibytes(component, preset, jvm) or 0
    request = heap + sizing.requested_overhead + (direct if values.requests_include_direct else 0)
    return {
        "requests": {"cpu": sizing.cpu, "memory": f"{math.ceil(request)}Mi"},
        "limits": {"memory": f"{math.ceil(heap + direct + sizing.limit_overhead)}Mi"},
    }
