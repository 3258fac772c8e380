"""What is written in an issue, and under it."""
