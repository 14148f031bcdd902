"""PulsarTopicSet: many topics with one template."""
