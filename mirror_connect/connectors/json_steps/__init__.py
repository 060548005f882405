"""Kafka's transformations of JSON keys and values: what each makes of a value, and the errors of records."""
