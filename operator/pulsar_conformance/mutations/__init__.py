"""What breaks each check, one module a theme: a check that passes while its promise is broken proves nothing."""
