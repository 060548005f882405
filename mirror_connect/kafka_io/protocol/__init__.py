"""Kafka's requests and responses as bytes, a module for each kind; no I/O."""
