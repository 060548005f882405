"""The worker's state in Kafka: the config, status and offset topics, with their record formats and views."""
