"""Is head slower than base, on this very machine? Two environments measured as pairs, or two directories of records."""
