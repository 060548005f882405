"""The tasks of the three connectors, and the frame around them."""
