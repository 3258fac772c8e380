"""``culprits.json``, the file between ``bisect`` and ``report``: what it holds, how it is read, written and shown."""
