"""What is inside Pulsar: tenants, namespaces, topics, resource groups, isolation policies."""
