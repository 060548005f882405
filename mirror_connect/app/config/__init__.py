"""The worker's own settings: properties file, config providers, listeners."""
