"""Code that both type checkers accept, without a word."""

from typing import assert_type

from polycast.errors import BadOption, FilterError, PolycastError


def unknown_option() -> BadOption:
    return BadOption.unknown("queues", 3, ["queue"])


def root_of_the_filters_errors() -> type[PolycastError]:
    return FilterError


def name_of_the_option(error: BadOption) -> str:
    assert_type(error.option, str)
    return error.option
