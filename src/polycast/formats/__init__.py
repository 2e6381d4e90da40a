"""Forms of events that other systems read."""
