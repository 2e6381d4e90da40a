"""What the Extended Trader Constraint Language does with values: strictly, or not at all."""
