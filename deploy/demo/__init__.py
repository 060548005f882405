"""The demo: two clusters, a worker, connectors, and records that arrive."""
