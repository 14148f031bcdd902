"""Reading the traffic of very many topics: memory and event loop of the operator."""
