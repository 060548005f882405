"""The dashboard of mirror-connect for Grafana, and how a Grafana finds it."""
