"""Cases for the admission rules of resource groups and isolation policies; see tests/support/admission/rules.py."""

from __future__ import annotations

from pulsar_operator.api.constants import Kind
from tests.support.admission.rules import Create, Json, Update

PRG, PIP = Kind.RESOURCE_GROUP, Kind.ISOLATION_POLICY
PATTERN = "should match"
AT_LEAST_1 = "should be greater than or equal to 1"
DUPLICATE = "Duplicate value"
COMPILES = "must be a regular expression in RE2 syntax"
NAMED_GROUP = "must not have a named group"
NO_PORT = "without a port"
BROKER = "must be a broker id (host:port) as shown by `pulsar-admin brokers list`"
TOGETHER = "spec.namespaces and spec.primary must be set together"
BELONGS = "require spec.namespaces and spec.primary"
NOTHING = "The object declares nothing"
PRESENCE = "spec.namespaces cannot be added or removed"
RESERVED = "cannot have the name brokers"

NO_POLICY: Json = {"namespaces": None, "primary": None}
DOMAINS: Json = {"failureDomains": [{"name": "rack-1", "brokers": ["b-0.b.svc:8080"]}]}


def _domain(broker: str) -> Json:
    return {"failureDomains": [{"name": "rack-1", "brokers": [broker]}]}


INSTANCE_CREATES: tuple[Create, ...] = (
    # PulsarResourceGroup
    *(Create(PRG, f"name-{name}", {"name": name}, PATTERN) for name in ("a/b", "..", "a b")),
    Create(PRG, "no-instanceRef", {"instanceRef": None}, "Required value"),
    Create(PRG, "limits-empty", {"limits": {}}),
    Create(PRG, "limits", {"limits": {"publishRate": {"messagesPerSecond": 1, "bytesPerSecond": 2**40}}}),
    Create(PRG, "rate-0", {"limits": {"publishRate": {"messagesPerSecond": 0}}}, AT_LEAST_1),
    Create(PRG, "rate-negative", {"limits": {"dispatchRate": {"bytesPerSecond": -1}}}, AT_LEAST_1),
    Create(PRG, "rate-of-2-31", {"limits": {"dispatchRate": {"messagesPerSecond": 2**31}}}, "less than or equal to"),
    Create(PRG, "limits-unknown", {"limits": {"replicationRate": {}}}, 'unknown field "spec.limits.replicationRate"'),
    # PulsarIsolationPolicy
    *(Create(PIP, f"name-{name}", {"name": name}, PATTERN) for name in ("a/b", "..", "a b")),
    Create(PIP, "name-brokers", {"name": "brokers"}, RESERVED),
    Create(PIP, "object-name-brokers", refused=RESERVED, name="brokers"),
    Create(PIP, "object-name-brokers-called-otherwise", {"name": "b"}, name="brokers"),
    Create(PIP, "no-instanceRef", {"instanceRef": None}, "Required value"),
    Create(PIP, "clusters-none", {"clusters": []}, "should have at least 1 items"),
    *(
        Create(PIP, f"{field}-{name}", {field: [expression]}, refused)
        for field in ("namespaces", "primary", "secondary")
        for name, expression, refused in (
            ("all", ".*", None),
            ("alternatives", "(?:a|b)/[a-z[:digit:]]+", None),
            ("open-group", "shop/(.*", COMPILES),
            ("open-class", "shop/[a", COMPILES),
            ("nothing-to-repeat", "*", COMPILES),
            ("look-ahead", "(?!shop).*", COMPILES),
            ("python-group", "(?P<tenant>shop)/.*", NAMED_GROUP),
            ("empty", "", "should be at least 1 chars long"),
            ("of-257", "a" * 257, "may not be more than 256"),
        )
    ),
    *(
        Create(PIP, f"{field}-port-{name}", {field: [expression]}, NO_PORT)
        for field in ("primary", "secondary")
        for name, expression in (
            ("number", "b-0.b.svc:8080"),
            ("any", "b-0.*:.*"),
            ("digits", r"b-0.*:\d+"),
            ("class", "b-0.*:[0-9]+"),
        )
    ),
    Create(PIP, "namespaces-of-port", {"namespaces": ["shop/a:1"]}),
    Create(PIP, "namespaces-twice", {"namespaces": ["a/b", "a/b"]}, DUPLICATE),
    Create(PIP, "namespaces-none", {"namespaces": []}, "should have at least 1 items"),
    Create(PIP, "namespaces-alone", {"primary": None}, TOGETHER),
    Create(PIP, "primary-alone", {"namespaces": None}, TOGETHER),
    Create(PIP, "domains-alone", NO_POLICY | DOMAINS),
    Create(PIP, "domains-and-policy", DOMAINS),
    Create(PIP, "nothing", NO_POLICY, NOTHING),
    *(
        Create(PIP, f"{field}-without-policy", NO_POLICY | DOMAINS | {field: value}, BELONGS)
        for field, value in (("secondary", ["x"]), ("autoFailover", {}), ("unloadScope", "None"))
    ),
    Create(PIP, "failover", {"autoFailover": {"type": "MinAvailable", "minLimit": 0, "usageThresholdPercent": 100}}),
    Create(PIP, "failover-type", {"autoFailover": {"type": "min_available"}}, "Unsupported value"),
    Create(PIP, "failover-limit", {"autoFailover": {"minLimit": -1}}, "should be greater than or equal to 0"),
    Create(PIP, "failover-threshold", {"autoFailover": {"usageThresholdPercent": 101}}, "less than or equal to 100"),
    Create(PIP, "unloadScope", {"unloadScope": "all_matching"}, "Unsupported value"),
    *(
        Create(PIP, f"domain-broker-{broker}", _domain(broker), BROKER)
        for broker in ("b-0.b.svc", "http://b-0:8080", "b-0:", ":8080", "b 0:8080", "-b:1", "b-0:808080")
    ),
    *(Create(PIP, f"domain-broker-{broker}", _domain(broker)) for broker in ("b:1", "10.0.0.1:8080", "B-0.x:65535")),
    Create(PIP, "domain-of-nobody", {"failureDomains": [{"name": "x", "brokers": []}]}, "should have at least 1 items"),
    Create(PIP, "domain-twice", {"failureDomains": DOMAINS["failureDomains"] * 2}, DUPLICATE),
    Create(PIP, "domain-name", {"failureDomains": [{"name": "a/b", "brokers": ["b:1"]}]}, PATTERN),
)

INSTANCE_UPDATES: tuple[Update, ...] = (
    *(
        update
        for kind in (PRG, PIP)
        for update in (
            Update(kind, "name-changed", {"name": "gold"}, {"name": "silver"}, "spec.name is immutable"),
            Update(kind, "name-added", {}, {"name": "gold"}, "spec.name is immutable"),
            Update(kind, "name-removed", {"name": "gold"}, {"name": None}, "spec.name is immutable"),
            Update(kind, "name-kept", {"name": "gold"}, {"driftPolicy": "Report"}),
            Update(kind, "instanceRef", {}, {"instanceRef": {"name": "other"}}, "spec.instanceRef is immutable"),
        )
    ),
    Update(PIP, "policy-added", NO_POLICY | DOMAINS, {"namespaces": ["a/b"], "primary": ["x"]}, PRESENCE),
    Update(PIP, "policy-removed", DOMAINS, NO_POLICY, PRESENCE),
    Update(PIP, "policy-changed", DOMAINS, {"namespaces": ["a/b"], "primary": ["x"], "failureDomains": None}),
    Update(PIP, "clusters-changed", {"clusters": ["east"]}, {"clusters": ["west"]}),
)
