"""What BookKeeper keeps in the metadata store: ledgers, bookies, what lacks copies. Reading only. Pure."""
