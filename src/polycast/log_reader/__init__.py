"""Reading the log for a bus: what is new, what a subscription has still to catch up with."""
