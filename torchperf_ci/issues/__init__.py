"""Issues on GitHub: one for each cause, opened once, kept up to date, closed when it is over, opened again."""
