"""What several checks share: Pulsar's own rules computed anew, and what they do to and ask of brokers and clients."""
