"""Environments under test: turn a Python, a wheel or a revision into a Python to measure, and remove it afterwards."""
