"""The command `polycast`: look after stores from a terminal."""

from polycast.cli.entry_point import main

__all__ = ["main"]
