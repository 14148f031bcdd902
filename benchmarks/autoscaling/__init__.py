"""Week-long simulations of scalers of brokers and bookies, ours as it ships against published ones."""
