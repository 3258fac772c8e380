"""What changed when: the levels of every series over the stored past."""
