"""What is searched: the commits of a range, and what git says of them."""
