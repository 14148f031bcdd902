"""Whether a Kubernetes namespace is being deleted."""

from __future__ import annotations

from pulsar_operator.ports import NAMESPACES, Deps, RefusedError


async def is_going(deps: Deps, namespace: str, *, refused: RefusedError) -> bool:
    """Whether the namespace is being deleted, or gone, when a request in it was ``refused`` (HTTP 403).

    Its deletion takes the operator's rights in it away; but roles are changed for other reasons too, and an admission
    webhook may refuse as well. So the namespace itself is looked at.
    Raises RefusedError, with what was refused, where that is not allowed either; UnavailableError.
    """
    try:
        found = await deps.kube.get(NAMESPACES, "", namespace)
    except RefusedError as error:
        text = f"{refused}; whether Kubernetes namespace {namespace} is being deleted cannot be seen: {error}"
        raise RefusedError(text, status=refused.status) from refused
    return found is None or "deletionTimestamp" in found["metadata"]
