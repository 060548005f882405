"""Proof of a copy: source and target of a link, compared record by record or batch by batch."""
