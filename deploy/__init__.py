"""Ways to run mirror-connect and the clusters it works between."""
