"""Code of users: their own classes, and Java regular expressions."""
