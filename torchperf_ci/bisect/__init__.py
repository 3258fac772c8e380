"""Find the commit that caused a slowdown: confirm that a range got slower, search it, and prove each culprit."""
