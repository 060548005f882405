"""What a connector is: pure Python, no network, no Spark, no web framework."""
