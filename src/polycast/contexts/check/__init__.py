"""What is wrong, doubtful or worth knowing in a context before any event flows."""
