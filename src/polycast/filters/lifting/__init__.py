"""Ways to write a filter's tree."""
