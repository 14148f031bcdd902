"""What the demos say at the end: where the Pulsar is, and commands to try."""

from __future__ import annotations

from collections.abc import Mapping

IN_CLUSTER = "pulsar://east-proxy.pulsar:6650"
TOPIC = "persistent://shop/orders/payments"


def commands(kubectl: str, image: str) -> tuple[str, ...]:
    """Three commands, one per line.

    kubectl is how it is called here. image holds Pulsar's own client, such as that of the brokers. The clients' pods
    are in namespace default: that of the quickstart is under Pod Security Standard restricted, which the pods of
    kubectl run do not meet.
    """
    run = f"{kubectl} run -n default --rm -i --restart=Never --image={image}"
    client = f"--command -- bin/pulsar-client --url {IN_CLUSTER}"
    return (
        f"{kubectl} get pulsar -A",
        f"{run} say {client} produce {TOPIC} -m hello",
        f"{run} hear {client} consume {TOPIC} -s first -p Earliest -n 1",
    )


def ending(kubectl: str, image: str, service_url: str) -> str:
    """The text: the service URL from outside ("" = by a port-forward) and from pods, then the commands."""
    forward = f"pulsar://127.0.0.1:6650 after: {kubectl} -n pulsar port-forward service/east-proxy 6650 8080"
    lines = [
        f"service URL, from here:    {service_url or forward}",
        f"service URL, from pods:    {IN_CLUSTER}",
        "three commands to try (the objects; a message in; the oldest message out):",
        *(f"  {command}" for command in commands(kubectl, image)),
    ]
    return "\n".join(lines)


PAIR_TOPIC = "persistent://shop/orders/demo"
PAIR_IN_CLUSTER = {"east": "pulsar://east-proxy.pulsar:6650", "west": "pulsar://west-proxy.pulsar-west:6650"}


def pair_ending(kubectl: str, image: str, service_urls: Mapping[str, str]) -> str:
    """The same of two clusters that replicate; ``service_urls`` are those from outside, by cluster."""
    run = f"{kubectl} run -n default --rm -i --restart=Never --image={image}"
    east, west = (f"--command -- bin/pulsar-client --url {PAIR_IN_CLUSTER[name]}" for name in ("east", "west"))
    shown = "-o jsonpath='{.status.replication}'"
    lines = [
        *(
            f"service URL of {name}, from here: {url}   from pods: {PAIR_IN_CLUSTER[name]}"
            for name, url in service_urls.items()
        ),
        "commands to try (the objects; a message into east; the oldest one out of west; what they replicate):",
        f"  {kubectl} get pulsar -A",
        f"  {run} say {east} produce {PAIR_TOPIC} -m hello",
        f"  {run} hear {west} consume {PAIR_TOPIC} -s first -p Earliest -n 1",
        f"  {kubectl} -n pulsar get pulsarinstance demo {shown}",
        "west away and back (the operator leaves it so while it is paused):",
        f"  {kubectl} -n pulsar-west annotate pulsarcluster west pulsaroperator.io/pause=true",
        f"  {kubectl} -n pulsar-west scale statefulset west-broker --replicas=0",
        f"  {kubectl} -n pulsar-west annotate pulsarcluster west pulsaroperator.io/pause-",
    ]
    return "\n".join(lines)
