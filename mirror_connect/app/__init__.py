"""The worker process: REST, herder, storage, supervisor. No Spark in it."""
