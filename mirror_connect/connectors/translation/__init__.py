"""Positions of groups translated from source to target."""
