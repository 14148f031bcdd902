"""One controller per kind: observe (ports), plan (domain), act (ports), status (domain)."""
