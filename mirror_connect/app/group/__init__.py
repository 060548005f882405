"""Workers with one group.id: who leads, and who runs what."""
