"""Answers of brokers that are not as usual: errors, other documents, from some of them and to some questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulsar_operator.ports import AdminEndpoint
from tests.support.balancing.world import BalancingWorld


def answering(world: BalancingWorld, wanted: Callable[[str, list[str]], bool], answer: Any) -> None:
    """Some questions are answered otherwise; ``answer`` may be an error.

    ``wanted`` gets the broker that is asked, ``host:port``, and the question, ``[method, *path]``.
    """
    usual = world.pulsar.call

    async def call(endpoint: AdminEndpoint, method: str, path: Any, **more: Any) -> Any:
        if wanted(endpoint.url.removeprefix("http://"), [method, *path]):
            if isinstance(answer, Exception):
                raise answer
            return answer
        return await usual(endpoint, method, path, **more)

    world.pulsar.call = call  # type: ignore[method-assign]
