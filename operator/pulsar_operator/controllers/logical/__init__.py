"""Controllers of the objects inside Pulsar: tenants, namespaces, topics, resource groups, isolation policies."""
