"""Telemetry of Pulsar's topics and the Spark job that sizes bundles from it. Imported by nothing in pulsar_operator."""
