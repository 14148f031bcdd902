"""What breaks the checks of backlog quotas."""

from __future__ import annotations

from pulsar_conformance.mutations.storage import lost
from pulsar_conformance.tamper import Mutation, Rule, change_admin, drop_admin

_NO_QUOTA = drop_admin("POST", r"/backlogQuota$")


def _policy(name: str) -> Rule:
    return change_admin("POST", r"/backlogQuota$", lambda body: {**body, "policy": name})


MUTATIONS = (
    Mutation("backlog_quota.hold", "none", "there is no quota", (_NO_QUOTA,)),
    Mutation("backlog_quota.hold", "exception", "producers are refused", (_policy("producer_exception"),)),
    Mutation("backlog_quota.hold", "eviction", "messages are dropped", (_policy("consumer_backlog_eviction"),)),
    Mutation("backlog_quota.exception", "none", "there is no quota", (_NO_QUOTA,)),
    Mutation("backlog_quota.exception", "hold", "producers wait", (_policy("producer_request_hold"),)),
    Mutation("backlog_quota.exception", "lost", "a message is lost", (lost("0007" + "x" * 1000),)),
    Mutation("backlog_quota.eviction", "none", "there is no quota", (_NO_QUOTA,)),
    Mutation("backlog_quota.eviction", "hold", "producers wait", (_policy("producer_request_hold"),)),
    Mutation("backlog_quota.age", "none", "there is no quota", (_NO_QUOTA,)),
    Mutation(
        "backlog_quota.age",
        "old",
        "the limit is an hour",
        (change_admin("POST", r"/backlogQuota$", lambda body: {**body, "limitTime": 3600}),),
    ),
)
