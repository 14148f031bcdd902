"""PulsarTopicSet: many topics of one template."""
