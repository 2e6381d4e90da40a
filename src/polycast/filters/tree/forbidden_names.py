"""Names that lead from an object to the program behind it."""

from __future__ import annotations

__all__ = ["FORBIDDEN_NAMES", "leads_out"]

# From an object to the frame it runs in, and to all that is known there.
FORBIDDEN_NAMES = frozenset(
    {
        *("gi_frame", "gi_code", "gi_yieldfrom", "cr_frame", "cr_code", "cr_await", "cr_origin"),
        *("ag_frame", "ag_code", "ag_await", "tb_frame", "tb_next", "f_back", "f_builtins"),
        *("f_code", "f_globals", "f_locals", "f_generator", "func_globals", "func_code"),
    }
)


def leads_out(name: str) -> bool:
    """Whether an untrusted filter may not name it."""
    return name.startswith("__") or name in FORBIDDEN_NAMES
