"""Who balances, Pulsar or the operator, and the drains of brokers that are replaced or removed."""
