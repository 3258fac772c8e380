"""Base of torchperf's HTTP servers: listening, time limits for clients and orderly shutdown. Needs extra ``web``."""
