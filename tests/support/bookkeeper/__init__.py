"""Records of BookKeeper: written by a tiny encoder, and by BookKeeper's own classes."""
