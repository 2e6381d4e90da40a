"""The broker: its server, the client of a bus over it, and what they say to each other."""
