"""What the tasks of this process have measured, by connector and partition, and the figures that follow from it."""
