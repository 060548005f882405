"""Where copied records came to lie: offset syncs and ranges, written by the task that copies."""
