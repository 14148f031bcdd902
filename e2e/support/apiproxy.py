"""HTTP of a Service that has no port on this machine, through the API server."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl


@contextmanager
def through_api_server(kubectl: Kubectl, namespace: str, service: str, port: int) -> Iterator[str]:
    """A URL at which the Service answers, by ``kubectl proxy``.

    Each call is a request of its own to the API server, which chooses an endpoint that is ready: unlike a port-forward,
    which is bound to one pod and ends with it or with a connection that is reset.
    """
    process = kubectl.popen("proxy", "--port=0")
    said: list[str] = []

    def read() -> None:
        assert process.stdout is not None
        said.extend(process.stdout)

    thread = threading.Thread(target=read, name="kubectl proxy", daemon=True)
    thread.start()
    try:
        found = eventually(
            lambda: re.search(r"serve on (127\.0\.0\.1:\d+)", "".join(said)), within=30, what="kubectl proxy serves"
        )
        yield f"http://{found[1]}/api/v1/namespaces/{namespace}/services/{service}:{port}/proxy"
    finally:
        process.terminate()
        process.wait(10)
        thread.join(10)
