"""Convert results of other benchmark tools to records, with one module per tool."""
