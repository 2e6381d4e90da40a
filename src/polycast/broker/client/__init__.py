"""The client of a broker: a store at another host."""
