"""Reads the tables that statements of connectors join: files, and compacted topics."""
