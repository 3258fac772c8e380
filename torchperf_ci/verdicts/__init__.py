"""``verdicts.json``, the file between stations: what it holds, how it is read, written and shown."""
