"""What there is to tell: what got worse, by what caused it."""
