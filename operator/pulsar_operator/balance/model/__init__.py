"""What is balanced: topics, hash ranges, bundles, brokers, and the load of each."""
