"""One change in an instance of several clusters that share a configuration store in a real ZooKeeper: bar P10."""
