"""What breaks the checks of delayed messages and batches, TTL, quotas and ledgers."""

from __future__ import annotations

from typing import Any

from pulsar_conformance.mutations.delivery import EXCLUSIVE, faded
from pulsar_conformance.mutations.policies import NO_TTL, RETAINED
from pulsar_conformance.tamper import Mutation, Rule, change_admin, drop, drop_admin, override, without

FADED = Rule("producer", "send", faded)


def _evicting(body: Any) -> Any:
    return {**body, "policy": "consumer_backlog_eviction"}


MUTATIONS = (
    Mutation("delayed.single", "faded", "the delays are lost", (Rule("producer", "send_async", faded),)),
    Mutation(
        "delayed.single",
        "no_batches",
        "the producer does not batch",
        (override("client", "create_producer", batching_enabled=False),),
    ),
    Mutation("delayed.single", "exclusive", "the subscription is Exclusive", (EXCLUSIVE,)),
    Mutation(
        "delayed.java_single",
        "faded",
        "the delays are lost",
        (without("java.producer", "send_async", "deliver_after_ms"),),
    ),
    Mutation(
        "delayed.java_single",
        "no_batches",
        "the producer does not batch",
        (override("java.client", "producer", batchingEnabled=False),),
    ),
    Mutation("delayed.ttl", "none", "there is no TTL", (NO_TTL,)),
    Mutation(
        "delayed.ttl", "short", "both TTLs are a second", (change_admin("POST", r"/messageTTL$", lambda _body: 1),)
    ),
    Mutation("delayed.ttl", "faded", "the delays are lost", (FADED,)),
    Mutation(
        "delayed.quota", "evict", "the quota refuses no producer", (change_admin("POST", "/backlogQuota", _evicting),)
    ),
    Mutation("delayed.quota", "faded", "the delays are lost", (FADED,)),
    Mutation("delayed.quota", "kept", "the delayed message is not skipped", (drop_admin("POST", "/skip_all$"),)),
    Mutation("delayed.evicted", "none", "there is no quota", (drop_admin("POST", "/backlogQuota"),)),
    Mutation("delayed.evicted", "faded", "the delays are lost", (FADED,)),
    Mutation("delayed.ledger", "faded", "the delay is lost", (FADED,)),
    Mutation("delayed.ledger", "retained", "everything is retained", (RETAINED,)),
    Mutation("delayed.ledger", "unacknowledged", "acknowledgements do not leave", (drop("consumer", "acknowledge"),)),
)
