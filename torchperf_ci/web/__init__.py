"""The dashboard: JSON documents about a store, the pages that show them, and the commands that serve or write both."""
