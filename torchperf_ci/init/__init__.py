"""Set a repository up: what is in it, where the actions come from, which files that makes."""
