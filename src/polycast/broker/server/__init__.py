"""The broker: a bus for several hosts, and other programs' way in."""
