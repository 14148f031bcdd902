"""What `make test` is made of: groups with a budget of minutes, areas with their slices, two lanes that run at once."""
