"""How many bundles, and where to cut, from recorded or expected traffic."""
