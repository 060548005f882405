"""Makes the running Spark tasks equal the wanted ones: start, watch, back off, stop."""
