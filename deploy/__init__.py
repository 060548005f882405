"""Ways to run mirror-connect and local clusters."""
