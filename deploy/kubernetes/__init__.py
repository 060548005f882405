"""Manifests and a Helm chart for Kubernetes."""
