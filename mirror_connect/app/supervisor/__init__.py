"""The worker's one Spark application and its tasks: wanted tasks, task runs, reports, restarts and leases."""
