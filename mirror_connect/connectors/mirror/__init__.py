"""The three mirror connectors: their settings, filters, naming policy, assignment and rules."""
