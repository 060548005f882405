"""What the worker does: REST operations, lifecycle of connectors, membership in the worker group."""
