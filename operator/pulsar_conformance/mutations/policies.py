"""What breaks the checks of retention, TTL and persistence."""

from __future__ import annotations

from pulsar_conformance.tamper import Mutation, change_admin, drop_admin

HOUR = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}
NO_RETENTION = change_admin("POST", r"/retention$", lambda _body: {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0})
RETAINED = change_admin("POST", r"/retention$", lambda _body: HOUR)
NO_TTL = drop_admin("POST", r"/messageTTL$")

MUTATIONS = (
    Mutation("retention.keeps", "none", "no namespace retains", (NO_RETENTION,)),
    Mutation("retention.keeps", "all", "every namespace retains", (RETAINED,)),
    Mutation("retention.time", "none", "nothing is retained", (NO_RETENTION,)),
    Mutation("retention.time", "long", "the retention is an hour", (RETAINED,)),
    Mutation("retention.size", "none", "nothing is retained", (NO_RETENTION,)),
    Mutation("retention.size", "unlimited", "100 MB are retained", (RETAINED,)),
    Mutation(
        "retention.forever",
        "size",
        "1 MB is retained",
        (change_admin("POST", r"/retention$", lambda body: {**body, "retentionSizeInMB": 1}),),
    ),
    Mutation("retention.forever", "none", "nothing is retained", (NO_RETENTION,)),
    Mutation("retention.broker_default", "default", "no namespace has a policy", (drop_admin("POST", r"/retention$"),)),
    Mutation(
        "retention.broker_default",
        "own",
        "every namespace is made with a policy of an hour",
        (change_admin("PUT", r"^namespaces/[^/]+/[^/]+$", lambda body: {**(body or {}), "retention_policies": HOUR}),),
    ),
    Mutation("ttl.expires", "none", "there is no TTL", (NO_TTL,)),
    Mutation("ttl.expires", "short", "the TTL is a second", (change_admin("POST", r"/messageTTL$", lambda _body: 1),)),
    Mutation("ttl.periodic", "none", "there is no TTL", (NO_TTL,)),
    Mutation("ttl.not_retention", "none", "no namespace retains", (NO_RETENTION,)),
    Mutation("ttl.not_retention", "all", "every namespace retains", (RETAINED,)),
    Mutation("ttl.not_retention", "no-ttl", "there is no TTL", (NO_TTL,)),
    Mutation(
        "persistence.ledger",
        "five",
        "the policy asks for five bookies",
        (
            change_admin(
                "POST",
                r"/persistence$",
                lambda body: {
                    **body,
                    **dict.fromkeys(("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum"), 5),
                },
            ),
        ),
    ),
    Mutation(
        "persistence.refused",
        "possible",
        "the policies asked for are possible ones",
        (
            change_admin(
                "POST",
                r"/persistence$",
                lambda body: {
                    **body,
                    **dict.fromkeys(("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum"), 1),
                },
            ),
        ),
    ),
)
