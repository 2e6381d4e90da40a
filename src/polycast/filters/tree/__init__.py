"""The expression tree of filters: its nodes, its text, and what can be told of it alone."""
