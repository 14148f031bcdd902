"""End-to-end tests of the operator and the machine they run on."""
