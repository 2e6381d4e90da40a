"""Contexts at work: added, replaced, and translating events."""
