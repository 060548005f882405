"""Connections to a cluster: addresses, TLS, logins, client properties, which broker to ask."""
