"""Readiness of a ZooKeeper server, asked by the kubelet inside the pod."""

import re
import socket

_MODE = re.compile(r"^Mode: (?P<mode>\w+)", re.MULTILINE)
_SERVING = ("leader", "follower", "observer")


def probe_zookeeper(host: str = "127.0.0.1", port: int = 2181, timeout: float = 3.0) -> tuple[bool, str]:
    """Whether the server serves requests, and the reason in one line. Without a quorum it does not."""
    try:
        alive = four_letters("ruok", host, port, timeout)
        if alive != "imok":
            return False, f"ruok answered {_short(alive)}"
        state = four_letters("srvr", host, port, timeout)
    except OSError as error:
        return False, f"no answer on {host}:{port}: {error}"
    mode = mode_of(state)
    if mode is None:
        return False, _short(state)
    return mode in _SERVING, f"mode {mode}"


def mode_of(srvr: str) -> str | None:
    """What a server is, from its answer to srvr; None while it is in no quorum."""
    match = _MODE.search(srvr)
    return match["mode"] if match else None


def four_letters(command: str, host: str, port: int, timeout: float) -> str:
    """One of ZooKeeper's four-letter commands."""
    with socket.create_connection((host, port), timeout=timeout) as connection:
        connection.sendall(command.encode("ascii"))
        # No half-close here: ZooKeeper drops the request when it reads the end of the stream.
        answer = b""
        while chunk := connection.recv(4096):
            answer += chunk
    return answer.decode("utf-8", "replace").strip()


def _short(text: str) -> str:
    first = text.splitlines()[0] if text else "nothing"
    return first[:200]
