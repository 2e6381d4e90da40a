"""What a filter from outside may cost, before it runs: refused, or bounded by the event's size."""

from polycast.filters.cost.amounts import EVENT, Amount
from polycast.filters.cost.judge import cost_of, is_plain
from polycast.filters.cost.value_kinds import kind_of_type

__all__ = ["EVENT", "Amount", "cost_of", "is_plain", "kind_of_type"]
