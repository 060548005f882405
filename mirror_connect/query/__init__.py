"""Queries of mirrored topics by Spark: the data source `mirror`, and what `mirror-connect sql` runs."""
