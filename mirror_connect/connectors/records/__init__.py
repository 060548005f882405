"""The records of internal topics: keys and values as bytes, and back."""
