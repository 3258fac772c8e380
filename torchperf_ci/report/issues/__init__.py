"""One issue a culprit: opened once, kept up to date, closed when it is over, opened again when it comes back."""
