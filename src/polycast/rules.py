"""What rules of contexts are made with: functions marked for what they are, and `identity`."""

from polycast.contexts import identity, impure, unchecked

__all__ = ["identity", "impure", "unchecked"]
