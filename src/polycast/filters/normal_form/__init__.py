"""What an index can look up: a filter as a disjunction of conjunctions of predicates."""
