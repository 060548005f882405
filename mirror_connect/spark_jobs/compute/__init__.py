"""A connector's SQL, applied to records on their way: how Spark reads it, and what becomes of each record."""
