"""The collector: samples broker-stats of every broker into the store, keeps the store in order, serves the results."""
