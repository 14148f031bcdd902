"""What several checks share: Pulsar's own rules computed again, and what they do to and ask of brokers and clients."""
