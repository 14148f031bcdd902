"""Whether each cluster of an instance answers: all are asked at once, one cheap question in every pass over it.

Whoever has something to ask of a cluster tells what came of it too (logical/scope.py). Here one that is left out is
asked, so that no tenant, namespace or topic ever waits for it, and what is known is told in the status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.instance import InstanceClusterStatus
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.clusters import by_name, serving_endpoint
from pulsar_operator.domain.dataplane.instance.reachability import TIMEOUTS, ReachabilityFact, next_reachability
from pulsar_operator.ports import AdminEndpoint, DeadlineError, Deps, Json, PortError, UnavailableError

ASK_SECONDS: Final = 5.0
"""Deadline of the question, which brokers answer from memory."""
QUESTION: Final = ("clusters",)


async def observe_reachability(
    actor: Actor, clusters: Iterable[Json], stored: Iterable[InstanceClusterStatus]
) -> dict[str, ReachabilityFact]:
    """What the status says of each cluster, by name inside Pulsar; ``stored`` are the rows of the status as it is."""
    deps = actor.deps
    before = {row.name: ReachabilityFact(row.reachable, row.since, row.last_response_time) for row in stored}
    endpoints = {name: serving_endpoint(each) for name, each in by_name(clusters).items()}
    asked = [each for each in endpoints.values() if each is not None]
    answers = await asyncio.gather(*(_ask(deps, endpoint) for endpoint in asked))
    now, found = deps.clock.now(), {}
    for each, answered in zip(asked, answers, strict=True):
        if answered is not None:
            deps.reachability.asked(each.url, now, answered=answered)
    for name, endpoint in endpoints.items():
        known = before.get(name, ReachabilityFact())
        found[name] = next_reachability(
            known, deps.reachability.of(endpoint.url) if endpoint is not None else None, now
        )
        if found[name].reachable is False and known.reachable is not False:
            await actor.warn(Reason.ADMIN_UNREACHABLE, _left_out(name, found[name]))
    return found


def again(deps: Deps, clusters: Iterable[Json]) -> float | None:
    """Seconds until the first cluster that is left out is asked again, or one whose last call had no answer, at once;
    None if all answer."""
    now = deps.clock.now()
    standings = [deps.reachability.of(found.url) for each in clusters if (found := serving_endpoint(each)) is not None]
    times = [now if each.due(now) else each.again or now for each in standings if each.silent]
    return max((min(times) - now).total_seconds(), 1.0) if times else None


async def _ask(deps: Deps, endpoint: AdminEndpoint) -> bool | None:
    """Whether a cluster answers, where it is time to ask; None if it was not asked, or that is not known.

    Only silence is bad: what there is to say is not the question.
    """
    standing = deps.reachability.of(endpoint.url)
    if standing.since is not None and not standing.due(deps.clock.now()):
        return None
    try:
        await deps.admin.call(endpoint, "GET", QUESTION, deadline=ASK_SECONDS)
    except DeadlineError:
        return False
    except UnavailableError as error:
        return True if error.status else None
    except PortError:
        return True
    return True


def _left_out(name: str, fact: ReachabilityFact) -> str:
    last = f" (last response at {fact.last_response_time})" if fact.last_response_time else ""
    return (
        f"Cluster {name} has been unreachable since {fact.since}: {TIMEOUTS} consecutive calls had no answer{last}. "
        "Operations that need the cluster are suspended until it answers. Check its brokers and its metadata store"
    )
