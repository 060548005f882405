"""The worker's state in Kafka: config, status and offset topics, their record formats and views."""
