"""Pulsar's Java client for the checks: the program (pom.xml, src), and this side of its pipes."""
