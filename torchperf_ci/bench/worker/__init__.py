"""The worker process. It runs in the environment under test and needs only torch and the standard library."""
