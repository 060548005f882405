"""What a connector does besides its tasks: topics, partitions, and the specs of its tasks."""
