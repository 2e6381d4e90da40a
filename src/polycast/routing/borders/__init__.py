"""Events that cross from one context into another: as what, by which version, and for whom."""
