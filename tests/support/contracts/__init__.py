"""What the operator relies on in Pulsar, as tests that run against the fakes and against a real Pulsar."""
