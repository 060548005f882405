"""The only place that imports a Kafka client; the worker and the Spark application both use it."""
