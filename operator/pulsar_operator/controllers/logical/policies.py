"""Reads policies that Pulsar reports one by one: one GET for each, in each cluster that has its own value."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from pulsar_operator.controllers.logical.scope import AdminUnreachableError, Scope
from pulsar_operator.domain.policies import Call, PolicyRow, Unreadable, too_old
from pulsar_operator.ports import NotFoundError, RefusedError

Found = dict[str, dict[str | None, Any]]


async def read_own(
    scope: Scope, rows: Iterable[PolicyRow], base: tuple[str, ...], clusters: Sequence[str]
) -> tuple[Found, tuple[str, ...]]:
    """Returns the live values by field and cluster, and the clusters that did not answer.

    A policy that all clusters share is read in the first of ``clusters`` that answers. A cluster that fails to answer
    one read counts as unreachable, and its own values are discarded. Policies with the same path share one GET.
    """
    known = [row for row in rows if not too_old(row, scope.version)]
    own, shared = [row for row in known if row.per_cluster], [row for row in known if not row.per_cluster]
    found: Found = {row.field: {} for row in known}
    results = await asyncio.gather(*(_read_at(scope, cluster, own, base) for cluster in clusters))
    unreachable = [cluster for cluster, values in zip(clusters, results, strict=True) if values is None]
    for cluster, values in zip(clusters, results, strict=True):
        for field, value in (values or {}).items():
            found[field][cluster] = value
    for cluster in [c for c in clusters if c not in unreachable] if shared else ():
        values = await _read_at(scope, cluster, shared, base)
        if values is not None:
            for field, value in values.items():
                found[field][cluster] = value
            break
        unreachable.append(cluster)
    return found, tuple(sorted(unreachable))


async def _read_at(
    scope: Scope, cluster: str, rows: Sequence[PolicyRow], base: tuple[str, ...]
) -> dict[str, Any] | None:
    """Returns the values by field; None if the cluster does not answer."""
    calls: dict[str, Call] = {}
    for row in rows:
        call = row.get_call(base)
        calls.setdefault(_target(call), call)
    try:
        answers = await asyncio.gather(*(_answer(scope, cluster, call) for call in calls.values()))
    except AdminUnreachableError:
        return None
    by_target = dict(zip(calls, answers, strict=True))
    values = {}
    for row in rows:
        answer = by_target[_target(row.get_call(base))]
        values[row.field] = answer if isinstance(answer, Unreadable) else row.read(answer, cluster)
    return values


def _target(call: Call) -> str:
    return repr((call.path, sorted(call.query.items())))


async def _answer(scope: Scope, cluster: str, call: Call) -> Any:
    try:
        return await scope.admin.at(cluster, call)
    except NotFoundError:
        return None
    except RefusedError as error:
        return Unreadable(str(error))
