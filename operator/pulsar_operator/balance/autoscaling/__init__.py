"""Decides the number of brokers, proxies and bookies from measured figures, with the reason. Pure."""
