"""Two clusters, a worker, a connector, and records arriving: everything a stranger needs to see the product work."""
