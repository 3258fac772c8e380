"""``verdicts.json``, which ``check`` and ``compare`` write and ``bisect`` and ``report`` read, and its presentation."""
