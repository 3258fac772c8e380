"""Decide what to measure next and what the facts prove: pure functions without input or output."""
