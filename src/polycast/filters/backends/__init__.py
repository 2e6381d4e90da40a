"""Ways to run a filter's tree."""
