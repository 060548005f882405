"""The image of a worker: its Dockerfile, and what its containers start with."""
