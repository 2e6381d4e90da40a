"""The command `polycast`: look after stores from a terminal."""

from polycast.cli.command_line import main

__all__ = ["main"]
