"""The command `polycast`: look after stores from a terminal."""

from polycast.cli.running import main

__all__ = ["main"]
