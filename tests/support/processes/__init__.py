"""Real programs that tests start: the API server, ZooKeeper, Helm, the operator."""
