"""BookKeeper as the metadata store describes it: bookies, racks, volumes, ledgers and their copies."""
