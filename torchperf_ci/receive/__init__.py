"""``torchperf receive``: the server side of an upload API."""
