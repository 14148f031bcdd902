"""Publish latency of one broker that has thousands of topics."""
