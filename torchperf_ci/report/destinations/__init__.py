"""Where a report goes: one module for each kind of place."""
