"""Examples of the policy table, and the classes of Pulsar that it is held to."""
