"""Code that both type checkers reject, on each line that says so and on no other."""

from polycast.errors import BadOption, BusClosed, PolycastError

BusClosed(3)  # rejected
BusClosed("publish").operations  # rejected
BadOption("queue", 3)  # rejected
BadOption.choice(
    "overflow",
    "drop",
    3,  # rejected
)


def root_of_all() -> type[PolycastError]:
    return ValueError  # rejected
