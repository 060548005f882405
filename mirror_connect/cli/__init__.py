"""Commands for people: `mirror-connect …`."""
