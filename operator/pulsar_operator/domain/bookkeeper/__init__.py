"""BookKeeper's data in the metadata store: ledgers, bookies, under-replicated ledgers. Reading only. Pure."""
