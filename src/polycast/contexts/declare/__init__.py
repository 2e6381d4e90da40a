"""Declaring a context: in Python, XML or annotations, and as data."""
