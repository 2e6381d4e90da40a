"""Filters written in the languages of other systems, each whole in a folder of its own."""

import polycast.filters  # noqa: F401 - its register names the functions of each language: it is first
