"""What users give to run: classes of their own, and Java's regular expressions."""
