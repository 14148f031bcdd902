"""What a pass knows of a cluster, the order of bring-up, and the status of the cluster. Pure."""
