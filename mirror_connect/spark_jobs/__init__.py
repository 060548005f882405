"""What runs on Spark: the driver application, its epochs and the task functions."""
