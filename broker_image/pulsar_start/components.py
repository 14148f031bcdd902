"""What the components are: the table everything else reads."""

from dataclasses import dataclass, field

from pulsar_start.errors import StartError
from pulsar_start.paths import Paths


@dataclass(frozen=True, kw_only=True)
class Component:
    """One process of the data plane."""

    name: str
    main_class: str
    conf_file: str
    """The file the overrides are laid over: of the stock conf folder, and the name of the rendered one."""
    conf_option: str | None
    """The option that carries the rendered file; None where it is a system property or the only argument."""
    defaults: dict[str, str] = field(default_factory=dict)
    """Below the overrides: what the stock file gets wrong for a pod."""
    jvm: tuple[str, ...] = ()


# Pulsar's own shutdown hook logs; log4j's would end logging first.
_NO_LOG_SHUTDOWN_HOOK = "-Dlog4j.shutdownHookEnabled=false"
_NO_LEAK_DETECTION = "-Dio.netty.leakDetection.level=disabled"

COMPONENTS = {
    component.name: component
    for component in (
        Component(
            name="zookeeper",
            main_class="org.apache.zookeeper.server.quorum.QuorumPeerMain",
            conf_file="zoo.cfg",
            conf_option=None,
            jvm=("-Dzookeeper.tcpKeepAlive=true",),
        ),
        Component(
            name="bookie",
            main_class="org.apache.bookkeeper.server.Main",
            conf_file="bookkeeper.conf",
            conf_option="--conf",
            jvm=(_NO_LEAK_DETECTION,),
        ),
        Component(
            name="autorecovery",
            main_class="org.apache.bookkeeper.replication.AutoRecoveryMain",
            conf_file="bookkeeper.conf",
            conf_option="--conf",
            jvm=(_NO_LEAK_DETECTION,),
        ),
        Component(
            name="broker",
            main_class="org.apache.pulsar.PulsarBrokerStarter",
            conf_file="broker.conf",
            conf_option="--broker-conf",
            jvm=(_NO_LOG_SHUTDOWN_HOOK,),
        ),
        Component(
            name="proxy",
            main_class="org.apache.pulsar.proxy.server.ProxyServiceStarter",
            conf_file="proxy.conf",
            conf_option="--config",
        ),
        Component(
            name="standalone",
            main_class="org.apache.pulsar.PulsarStandaloneStarter",
            conf_file="standalone.conf",
            conf_option="--config",
            # The bookie inside keeps its address in a cookie on the volume: the pod's own address would change with
            # the next pod, and the bookie would refuse its volume for ever.
            defaults={"advertisedAddress": "127.0.0.1"},
            jvm=(_NO_LOG_SHUTDOWN_HOOK,),
        ),
    )
}


def component_named(name: str) -> Component:
    """The component, or an error that lists them."""
    try:
        return COMPONENTS[name]
    except KeyError:
        raise StartError(f"no component {name!r}; there are: {', '.join(COMPONENTS)}") from None


def arguments(component: Component, conf: str, paths: Paths) -> list[str]:
    """What follows the main class."""
    if component.conf_option is None:
        return [conf]
    result = [component.conf_option, conf]
    if component.name == "standalone":
        result += [
            f"--metadata-url=rocksdb://{paths.standalone}/metadata",
            f"--bookkeeper-dir={paths.standalone}/bookkeeper",
            "--no-functions-worker",
            "--no-stream-storage",
        ]
    return result
