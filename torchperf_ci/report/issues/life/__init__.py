"""What becomes of an issue, night after night. Pure: it knows GitHub by what was read of it."""
