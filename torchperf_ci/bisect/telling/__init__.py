"""What people are told before, meanwhile and afterwards."""
