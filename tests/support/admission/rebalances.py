"""Cases for the admission rules of PulsarRebalance; see tests/support/admission/rules.py."""

from __future__ import annotations

from pulsar_operator.api.constants import Kind
from tests.support.admission.rules import Create, Update

PRB = Kind.REBALANCE
BROKER = "east-broker-0.east-broker-headless.pulsar.svc.cluster.local:8080"
NEEDED = "spec.brokers is required with modes AddBrokers and RemoveBrokers"
BELONGS = "spec.brokers is allowed only with modes AddBrokers and RemoveBrokers"
TAKERS = "spec.excludedBrokers is allowed only with mode RemoveBrokers"
RECORDED = "spec.sizing is allowed only with trafficSource Recorded"
PATTERN = "should match"

REBALANCE_CREATES: tuple[Create, ...] = (
    Create(PRB, "minimal"),
    Create(PRB, "no-clusterRef", {"clusterRef": None}, "Required value"),
    Create(PRB, "mode-unknown", {"mode": "Merge"}, "Unsupported value"),
    *(Create(PRB, f"{mode}-no-brokers", {"mode": mode}, NEEDED) for mode in ("AddBrokers", "RemoveBrokers")),
    *(Create(PRB, f"{mode}-empty", {"mode": mode, "brokers": []}, NEEDED) for mode in ("AddBrokers", "RemoveBrokers")),
    Create(PRB, "remove-brokers", {"mode": "RemoveBrokers", "brokers": [BROKER]}),
    Create(PRB, "brokers-of-full", {"brokers": [BROKER]}, BELONGS),
    Create(PRB, "excluded", {"mode": "RemoveBrokers", "brokers": [BROKER], "excludedBrokers": ["a:8080"]}),
    Create(PRB, "not-of-full", {"excludedBrokers": [BROKER]}, TAKERS),
    Create(PRB, "not-of-add", {"mode": "AddBrokers", "brokers": [BROKER], "excludedBrokers": ["a:8080"]}, TAKERS),
    Create(PRB, "pods", {"mode": "RemoveBrokers", "brokers": ["east-broker-0"], "excludedBrokers": ["east-broker-1"]}),
    Create(PRB, "not-no-port", {"mode": "RemoveBrokers", "brokers": [BROKER], "excludedBrokers": ["a.b"]}, PATTERN),
    Create(PRB, "brokers-twice", {"mode": "RemoveBrokers", "brokers": [BROKER, BROKER]}, "Duplicate value"),
    *(
        Create(PRB, f"broker-{name}", {"mode": "RemoveBrokers", "brokers": [text]}, PATTERN)
        for name, text in (("no-port", "a.b"), ("capital", "A"), ("url", "http://a:8080"), ("slash", "a/b:8080"))
    ),
    Create(PRB, "namespaces", {"namespaces": ["shop/orders", "shop/*"]}),
    *(
        Create(PRB, f"namespaces-{name}", {"namespaces": [text]}, PATTERN)
        for name, text in (("tenant-alone", "shop"), ("everything", "*/*"), ("three", "a/b/c"), ("newline", "a/b\n"))
    ),
    Create(PRB, "sizing-of-live", {"sizing": {"url": "http://s:8080"}}, RECORDED),
    Create(PRB, "sizing", {"trafficSource": "Recorded", "sizing": {"url": "http://s.pulsar:8080"}}),
    Create(PRB, "sizing-default", {"trafficSource": "Recorded"}),
    *(
        Create(PRB, f"url-{name}", {"trafficSource": "Recorded", "sizing": {"url": text}}, PATTERN)
        for name, text in (("file", "file:///etc/passwd"), ("query", "http://s:8080?a=b"), ("space", "http://s s:80"))
    ),
    Create(PRB, "traffic-0", {"budget": {"maxTrafficMovedPercent": 0}}, "greater than or equal to 1"),
    Create(PRB, "traffic-101", {"budget": {"maxTrafficMovedPercent": 101}}, "less than or equal to 100"),
    Create(PRB, "budget-unknown", {"budget": {"maxmoves": 1}}, 'unknown field "spec.budget.maxmoves"'),
)

REBALANCE_UPDATES: tuple[Update, ...] = (
    Update(PRB, "cluster", {}, {"clusterRef": {"name": "west"}}, "spec.clusterRef is immutable"),
    Update(PRB, "budget", {}, {"budget": {"maxMoves": 1}}),
    Update(PRB, "mode", {}, {"mode": "Move"}),
)
