"""What running pods and stores report: counters, versions, sessions, other clusters. Pure."""
