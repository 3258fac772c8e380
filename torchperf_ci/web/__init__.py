"""The dashboard: documents that answer questions about a store, and whoever serves or writes them."""
