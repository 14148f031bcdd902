"""How many brokers, proxies and bookies there should be: measured figures in, a number and a reason out. Pure."""
