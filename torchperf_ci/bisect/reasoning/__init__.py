"""What follows from what is known: pure functions, no input or output."""
