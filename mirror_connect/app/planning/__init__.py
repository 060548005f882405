"""What a connector would do: the decisions of worker_connectors, read from both clusters and carried out nowhere."""
