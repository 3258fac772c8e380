"""Results of other benchmark tools, read as records: a file for each tool."""
