"""Number and boundaries of bundles, from recorded or expected traffic."""
