"""Environments under test: what people call a build, made into a Python that can be measured, and taken away again."""
