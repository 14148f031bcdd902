"""A ZooKeeper server waits until its own name resolves to an address of its pod.

A leader compares its own address, as Java resolved it at the start, with the one it resolves when it is elected. If the
two differ, it takes itself for a leader that a reconfiguration has replaced: it accepts proposals and never commits one
(ZOOKEEPER-4708; classes Leader and QuorumPeer, with reconfigEnabled). The server then says that it leads, and every
client of the ensemble times out until somebody restarts the leader. The addresses differ where the name did not resolve
at the start, and where it still resolved to the address of the former pod. Names of other servers play no part, so only
the own name is waited for.

The kubelet writes a pod's name and addresses into its /etc/hosts, so the wait is over at once where the cluster domain
of this server is that of the kubelet. Everywhere else the name is one of the cluster's DNS.
"""

import re
import socket
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address

from pulsar_start.errors import StartError
from pulsar_start.layering import parse

WAIT_SECONDS, PAUSE_SECONDS = 60.0, 2.0
SETTLE_SECONDS = 10.0
"""How long a name that did not resolve at first must resolve before Java starts: Java may ask another server of the
cluster's DNS, which still caches that the name does not exist (5 s in CoreDNS, plugin kubernetes)."""

_HOST = re.compile(r"\[(?P<ipv6>[^\]]+)\]|(?P<host>[^:\[\]]+)")


def own_hosts(membership: str, myid: int) -> list[str]:
    """Hosts in the server's own line of the dynamic file; several where it has several addresses, none where the server
    is no member."""
    line = next((value for key, value in parse(membership) if key == f"server.{myid}"), "")
    found = [_HOST.match(address.strip()) for address in line.partition(";")[0].split("|")]
    return [match["ipv6"] or match["host"] for match in found if match]


def await_own_name(
    hosts: Sequence[str],
    say: Callable[[str], None],
    resolve: Callable[[str], set[str]] | None = None,
    is_own: Callable[[str], bool] | None = None,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Returns when every host resolves, and to addresses of this pod alone.

    Raises StartError after a minute: the pod's status says why, and its next start looks again.
    """
    end = clock() + WAIT_SECONDS
    good_since: float | None = None
    said: str | None = None
    while True:
        problem = _problem(hosts, resolve or resolved, is_own or is_local)
        now = clock()
        if problem is None:
            good_since = now if good_since is None else good_since
            if said is None or now - good_since >= SETTLE_SECONDS:
                break
        else:
            good_since = None
            if problem != said:
                said = problem
                say(f"waits until its own name resolves to an address of this pod: {problem}")
            if now >= end:
                raise StartError(
                    f"after {WAIT_SECONDS:.0f} s the server's own name does not resolve to an address of this pod: "
                    f"{problem}. A server that starts so may be elected and never commit. Check the cluster's DNS, "
                    "the headless Service and its EndpointSlices, and the cluster domain"
                )
        pause(PAUSE_SECONDS)
    if said is not None:
        say(f"its own name resolves to an address of this pod: {', '.join(hosts)}")


def resolved(host: str) -> set[str]:
    """Addresses of a host, as Java's resolver finds them: both ask getaddrinfo. Raises OSError."""
    return {str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}


def is_local(address: str) -> bool:
    """Whether the address is one of this pod's: the kernel binds a socket to no other."""
    try:
        family, kind, protocol, _, name = socket.getaddrinfo(
            address, 0, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(name)
    except OSError:
        return False
    return True


def _problem(hosts: Sequence[str], resolve: Callable[[str], set[str]], is_own: Callable[[str], bool]) -> str | None:
    for host in hosts:
        try:
            addresses = {_normal(address) for address in resolve(host)}
        except OSError as error:
            return f"{host} does not resolve ({error})"
        except UnicodeError as error:
            return f"{host} is no host name ({error})"
        if not addresses:
            return f"{host} has no address"
        strange = sorted(address for address in addresses if not is_own(address))
        if strange:
            return f"{host} resolves to {', '.join(strange)}, which is no address of this pod"
    return None


def _normal(address: str) -> str:
    """One spelling for each address: an IPv4 address within IPv6 is that IPv4 address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
