"""Where copied records came to lie: offset syncs and runs, written by the task that copies."""
