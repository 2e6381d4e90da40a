"""Filters in the Extended Trader Constraint Language: text, trees, and what its functions do."""
