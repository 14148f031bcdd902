"""Who moves bundles, Pulsar or the operator, and the drains of brokers that leave."""
