"""One partition's way from source to target, and its source offsets."""
