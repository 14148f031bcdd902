"""What an export reads, in memory and on a real Pulsar."""
