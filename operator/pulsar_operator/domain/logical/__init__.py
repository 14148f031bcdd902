"""Plans of the logical plane: from a specification and the facts of Pulsar to actions with reasons. Pure."""
