"""Who is subscribed: in this process, and as a store keeps it."""
