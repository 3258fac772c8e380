"""The machine that measures: its devices, fingerprint, tuning, and checks of how far its numbers can be trusted."""
