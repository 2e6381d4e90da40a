"""Which rule wins at each path of an event."""
