"""Keep what uploaders send: the server side of an upload API."""
