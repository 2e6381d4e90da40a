"""Filters written in the languages of other systems, each whole in a folder of its own."""
