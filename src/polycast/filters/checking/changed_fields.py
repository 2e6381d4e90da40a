"""Fields whose values may differ from their declaration, because a validator changes them."""

from __future__ import annotations

from typing import Any

__all__ = ["may_be_changed"]

# What pydantic keeps of decorated functions that may replace a value.
VALIDATORS = ("validators", "field_validators", "root_validators", "model_validators")


def may_be_changed(cls: Any, name: str) -> bool:
    """Whether a validator, a converter or a setting may put a value of another type there."""
    return _by_pydantic(cls, name) or _by_attrs(cls, name)


def _by_pydantic(cls: Any, name: str) -> bool:
    if not hasattr(cls, "__pydantic_fields__"):
        return False
    config = {**(getattr(cls, "__pydantic_config__", None) or {})}
    config.update(getattr(cls, "model_config", None) or {})
    if config.get("use_enum_values"):
        return True
    decorators = getattr(cls, "__pydantic_decorators__", None)
    if any(getattr(decorators, kind, None) for kind in VALIDATORS):
        return True
    field = cls.__pydantic_fields__.get(name)
    return any(_is_function(entry) for entry in getattr(field, "metadata", ()))


def _is_function(metadata: object) -> bool:
    """AfterValidator and its like hold a function; constraints such as Gt hold values."""
    return callable(getattr(metadata, "func", None)) or hasattr(
        metadata, "__get_pydantic_core_schema__"
    )


def _by_attrs(cls: Any, name: str) -> bool:
    for field in getattr(cls, "__attrs_attrs__", ()):
        if field.name == name:
            return field.converter is not None or field.on_setattr is not None
    return False
