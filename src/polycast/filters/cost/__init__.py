"""What a filter from outside may cost, before it runs: refused, or bounded by the event's size."""

from polycast.filters.cost.amounts import EVENT, Amount, kind_of_type
from polycast.filters.cost.judge import cost_of, is_plain

__all__ = ["EVENT", "Amount", "cost_of", "is_plain", "kind_of_type"]
