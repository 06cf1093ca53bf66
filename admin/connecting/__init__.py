"""How commands reach the nodes of a cluster: calls, their limits, waiting."""
