"""Policies whose change never lets Pulsar delete stored messages, and why. Whoever adds a policy decides here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LIMIT: Final = "it refuses what is new"
_RATE: Final = "it slows down, and deletes nothing"
HARMLESS: Final[Mapping[str, str]] = {
    "replicationClusters": "clusters that leave have confirmations of their own",
    "allowedClusters": "clusters that leave have confirmations of their own",
    "policies.compactionThreshold": "compaction leaves the messages to retention",
    "policies.publishRate": _RATE,
    "policies.dispatchRate": _RATE,
    "policies.subscriptionDispatchRate": _RATE,
    "policies.replicatorDispatchRate": _RATE,
    "policies.subscribeRate": _RATE,
    "policies.persistence": "it counts for new ledgers",
    "policies.bookieAffinityGroup": "it counts for new ledgers",
    "policies.antiAffinityGroup": "it moves bundles",
    "policies.deduplication.enabled": "it counts for new messages",
    "policies.deduplication.snapshotIntervalSeconds": "it counts for new messages",
    "policies.delayedDelivery": "it counts for delivery, and deletes nothing",
    "policies.autoTopicCreation": _LIMIT,
    "policies.autoSubscriptionCreation": _LIMIT,
    "policies.maxTopics": _LIMIT,
    "policies.maxProducers": _LIMIT,
    "policies.maxProducersPerTopic": _LIMIT,
    "policies.maxConsumers": _LIMIT,
    "policies.maxConsumersPerTopic": _LIMIT,
    "policies.maxConsumersPerSubscription": _LIMIT,
    "policies.maxSubscriptions": _LIMIT,
    "policies.maxSubscriptionsPerTopic": _LIMIT,
    "policies.maxUnackedMessagesPerConsumer": _RATE,
    "policies.maxUnackedMessagesPerSubscription": _RATE,
    "policies.maxMessageSize": _LIMIT,
    "policies.schema.compatibilityStrategy": _LIMIT,
    "policies.schema.allowAutoUpdate": _LIMIT,
    "policies.schema.validationEnforced": _LIMIT,
    "policies.subscriptionTypesEnabled": _LIMIT,
    "policies.subscriptionAuthMode": _LIMIT,
    "policies.encryptionRequired": _LIMIT,
    "policies.resourceGroup": _RATE,
    "policies.entryFilters": "a filter acknowledges what it rejects in one subscription: that is its purpose, and what "
    "it rejects is not known",
    "policies.dispatcherPauseOnAckStatePersistent": _RATE,
    "policies.allowedTopicPropertyKeysForMetrics": "it is about metrics",
    "policies.shadowTopics": "a shadow topic has no messages of its own",
}
"""Rows, by path, no change of which lets Pulsar delete stored messages, and why."""
