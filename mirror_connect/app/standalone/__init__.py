"""Standalone mode: one process whose connectors are files and whose offsets are a file, as Kafka's connect-standalone.sh."""
