"""Committed offsets of groups, translated from source to target."""
