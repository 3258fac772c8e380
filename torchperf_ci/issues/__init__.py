"""Issues on GitHub: one per cause, opened once, kept up to date, closed on recovery, and reopened on a relapse."""
