"""Changes of every field of the logical kinds, made on a Pulsar and taken back."""
