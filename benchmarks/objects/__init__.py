"""Speed and memory of the logical plane with thousands of objects (``make bench-objects``)."""
