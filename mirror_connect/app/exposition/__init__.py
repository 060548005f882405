"""The worker's metrics as Prometheus reads them: the series by their names, and the text of a scrape."""
