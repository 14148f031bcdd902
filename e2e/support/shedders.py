"""Pulsar's ways to shed, and what the brokers need for each: declared, or changed while they run."""

from __future__ import annotations

from typing import Any

PULSARS_OWN = {"loadBalancerSheddingEnabled": "true", "loadBalancerAutoBundleSplitEnabled": "true"}
"""Pulsar's defaults, which the brokers of e2e/tests/test_balance.py start without.

Class ThresholdShedder then sheds from a broker whose CPU or network is 10 points over the mean of all, and nothing
where that would be less than loadBalancerBundleUnloadMinThroughputThreshold, 10 MB/s: a test sends far less.
"""
TUNED = {
    "loadBalancerBundleUnloadMinThroughputThreshold": "0",
    "loadBalancerHistoryResourcePercentage": "0",
    "loadBalancerCPUResourceWeight": "0",
    "loadBalancerBandwidthInResourceWeight": "500",
    "loadBalancerBandwidthOutResourceWeight": "0",
}
"""With them class ThresholdShedder looks at this traffic: it sheds less than 10 MB/s, at once, by the bytes that come
in (the pods' network cards are 10 Gbit/s: at this weight 200 kbit/s count as one of its points)."""

SHEDDERS: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "overloaded": (
        "rebalancing.shedding_overloaded",
        {
            "broker": {
                "config": {
                    "loadBalancerLoadSheddingStrategy": "org.apache.pulsar.broker.loadbalance.impl.OverloadShedder",
                    "loadBalancerOverrideBrokerNicSpeedGbps": "0.005",
                }
            }
        },
        PULSARS_OWN,
    ),
    "extensible": (
        "rebalancing.shedding_extensible",
        {"loadBalancing": {"manager": "Extensible"}},
        {
            **PULSARS_OWN,
            **TUNED,
            "loadBalancerSheddingConditionHitCountThreshold": "0",
            "loadBalanceSheddingDelayInSeconds": "10",
            "loadBalancerBrokerLoadTargetStd": "0.05",
        },
    ),
}
"""A check, what the cluster declares for it, and the settings changed while it runs.

Brokers read the class of the shedder and the speed of the network card when they start: 4.0.8 accepts another class
dynamically, and goes on with the old one. Class TransferShedder acts while the standard deviation of the brokers' loads
is over its target (0.25; this traffic makes 0.19 of three brokers), or while one broker has no traffic at all, which
the load manager's own topics may prevent.
"""
BEFORE: dict[str, Any] = {
    "broker": {"config": {"loadBalancerLoadSheddingStrategy": None, "loadBalancerOverrideBrokerNicSpeedGbps": None}},
    "loadBalancing": {"manager": "Modular"},
}
