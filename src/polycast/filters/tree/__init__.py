"""The expression tree of filters: its nodes, its text, and what follows from the tree alone."""
