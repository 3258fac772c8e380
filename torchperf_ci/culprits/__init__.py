"""``culprits.json``, the file that ``bisect`` writes and ``report`` reads: its contents, format and presentation."""
