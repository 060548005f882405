"""Kafka's requests and answers as bytes, by their kind; no I/O."""
