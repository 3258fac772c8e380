"""What is judged: the points of one metric over time, out of records and out of the store."""
