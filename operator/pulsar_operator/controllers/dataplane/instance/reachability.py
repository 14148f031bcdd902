"""Whether each cluster of an instance answers: every pass over the instance asks all of them one cheap question.

Other calls to a cluster report their outcome too (logical/scope.py). A cluster that is left out is asked here, so that
no tenant, namespace or topic waits for it, and the result is in the status.
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
"""Deadline in seconds of the question, which brokers answer from memory."""
QUESTION: Final = ("clusters",)


async def observe_reachability(
    actor: Actor, clusters: Iterable[Json], stored: Iterable[InstanceClusterStatus]
) -> dict[str, ReachabilityFact]:
    """Returns the reachability of each cluster for the status, by name inside Pulsar; ``stored`` are the rows of the
    current status."""
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
    """Returns the seconds until the next probe of a cluster that is left out, 0 for one whose last call had no answer;
    None if all answer."""
    now = deps.clock.now()
    standings = [deps.reachability.of(found.url) for each in clusters if (found := serving_endpoint(each)) is not None]
    times = [now if each.due(now) else each.again or now for each in standings if each.silent]
    return max((min(times) - now).total_seconds(), 1.0) if times else None


async def _ask(deps: Deps, endpoint: AdminEndpoint) -> bool | None:
    """Asks a cluster if that is due; None if it was not asked, or the answer is not known. Any response, even an error,
    means reachable.
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
    last = f" (the last response was at {fact.last_response_time})" if fact.last_response_time else ""
    return (
        f"Cluster {name} has been unreachable since {fact.since}, because {TIMEOUTS} consecutive calls timed "
        f"out{last}. Operations that need the cluster are suspended until it answers. Check its brokers and its "
        "metadata store"
    )
