"""``torchperf check``, which compares new records with history, and ``torchperf baseline``, a history kept in git."""
