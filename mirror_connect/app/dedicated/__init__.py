"""Dedicated mode: one process that runs every flow of an mm2.properties file, as Kafka's connect-mirror-maker.sh does."""
