"""Formats of events that other systems read."""
