"""A mapping as one Spark column, which gives the same results as the generated Python code.

Both are made from the same recipe. As in filters, a value may fail: then there is no event, and the
column is NULL. What has no exact form is refused, and named.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from polycast.contexts.check.assignability import hint_text, holds, takes_any
from polycast.contexts.compile import translation_ir as ir
from polycast.contexts.compile.object_makers import maker_of, open_attributes
from polycast.contexts.declare.statements import DIRECTIONS, Direction
from polycast.contexts.resolve.attribute_shapes import ValueShape, shape_of
from polycast.contexts.resolve.inheritance import SettledContext, settle
from polycast.contexts.run.translator import Translator
from polycast.errors import (
    BadContextError,
    BadOptionError,
    ContextRefusedError,
    NoSparkFormError,
    NoSparkTypeError,
)
from polycast.filters.backends.spark import sql as terms
from polycast.filters.backends.spark import struct_of
from polycast.filters.backends.spark.columns import DEEPEST, LARGEST
from polycast.filters.backends.spark.sql import NULL, both
from polycast.filters.backends.spark.values import (
    ABSENT,
    ColumnKind,
    NoColumnError,
    Value,
    attribute_kind,
)
from polycast.filters.backends.spark.values import kind_of as hint_kind
from polycast.pipeline.column_casts import applied, data, each_of, fitted, or_none, part_of, struct
from polycast.typesystem.attributes import Default, declared_defaults
from polycast.typesystem.class_kinds import is_protocol, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

    from polycast.contexts import Context


def translated(
    context: Context, cls: type, *, direction: Direction = "?", exact: bool = False
) -> Column:
    """Return a column that translates the rows of `table(spark, url, cls)` in a context: a struct.

    It is NULL where a function would raise, or where its result has no row. With `exact`, rows are
    of the class itself, as in `table(..., exact=True)`; otherwise its known subtypes must be
    translated the same way.
    """
    if direction not in DIRECTIONS:
        raise BadOptionError.choice("direction", direction, DIRECTIONS)
    errors = context.check().errors
    if errors:
        raise ContextRefusedError(context.name, errors)
    settled = settle(context)
    translator = Translator(settled, direction, lambda finding: None)
    target = translator.becomes(cls)
    if target is None:
        known = {source.__name__ for source, way in settled.mappings if way == direction}
        accepted = ", ".join(sorted(known)) or "none"
        raise BadContextError("a type with a mapping", cls, accepted=accepted, where=context.name)
    what = translator.mapping(cls) or cls.__qualname__
    try:
        made = _limited(_event(settled, translator, cls, target, exact=exact))
        column = terms.column_of(terms.case((made.ok, made.term), otherwise=NULL))
        # Everything may be NULL to Spark, and a part that is NULL for every row gets its type.
        return column.cast(struct_of(target).toNullable()).alias(target.__name__)
    except NoColumnError as refusal:
        why, accepted = refusal.why, refusal.accepted
    except NoSparkTypeError as error:
        why, accepted = str(error).partition(". Accepted: ")[0], error.accepted
    raise NoSparkFormError(f"{context.name}: {what}", node=what, why=why, accepted=accepted)


def _event(
    settled: SettledContext, translator: Translator, cls: type, target: type, *, exact: bool
) -> Value:
    """The event, if it is the same for all of the known subtypes."""
    event, wanted = Value(ColumnKind("event", cls=cls), NULL), ColumnKind("object", cls=target)

    def made(met: type) -> Value:
        if translator.mapping(met) is None:
            return fitted(event, wanted)
        return _made(translator.recipe(met), event, wanted)

    value = made(cls)
    for met in () if exact else settled.types.subtypes(cls)[1:]:
        if not _is_abstract(met) and not _are_same(value, _met(met, made)):
            why = f"events of {met.__name__} are translated otherwise than those of {cls.__name__}"
            raise NoColumnError(why, accepted="exact=True, over a table(..., exact=True)")
    return value


def _met(met: type, make: Callable[[type], Value]) -> Value:
    try:
        return make(met)
    except NoColumnError as refusal:
        why = f"met as {met.__name__}: {refusal.why}"
        raise NoColumnError(why, accepted=refusal.accepted) from None


def _are_same(one: Value, other: Value) -> bool:
    return terms.are_alike(one.term, other.term) and terms.are_alike(one.ok, other.ok)


def _is_abstract(cls: type) -> bool:
    return is_protocol(cls) or inspect.isabstract(cls)


def _limited(value: Value) -> Value:
    size, depth = value.term.size + value.ok.size, max(value.term.depth, value.ok.depth)
    if size > LARGEST or depth > DEEPEST:
        why = f"it would take more than {LARGEST} operations, or {DEEPEST} in each other"
        raise NoColumnError(why, accepted="smaller types and functions")
    return value


# -- recipes ---------------------------------------------------------------------------------------


def _made(recipe: ir.Recipe, value: Value, wanted: ColumnKind) -> Value:
    """What a recipe makes of a value, cast to the kind of an attribute."""
    match recipe:
        case ir.Keep() | ir.Duplicate():
            return fitted(value, wanted)
        case ir.Apply():
            return fitted(_as_said(recipe, applied(recipe.rule, value)), wanted)
        case ir.Build():
            return _built(recipe, value, wanted)
        case ir.Whole():
            why = f"{recipe.function.name} makes {recipe.mapping.target.__name__} as a whole"
            raise NoColumnError(why, accepted="rules for attributes")
        case ir.Each():
            inner, element = recipe.inner, wanted.element
            if element is None:
                why = f"elements are there, and {wanted} is wanted"
                raise NoColumnError(why, accepted=f"{wanted}")
            return each_of(value, wanted, lambda item: _made(inner, item, element))
        case ir.Choice():
            return or_none(value, wanted, lambda there: _chosen(recipe, there, wanted))
        case ir.Otherwise(inner=ir.Choice(none=ir.Missing()) as choice):
            return _or_default(choice, recipe.default, value, wanted)
    why = "not all that it may be has a place in the target, and a row does not say which it is"
    raise NoColumnError(why, accepted="types that the target takes, or maps")


def _as_said(recipe: ir.Apply, made: Value) -> Value:
    """A function's result, if it is what the annotation says; otherwise there is no event."""
    name = made.kind.name
    if name == "other" and made.constant is not ABSENT:
        name = type(made.constant).__name__
    if recipe.result is not None and name in _COUNTED:
        _check_container(name, recipe.result.shape)
    said = recipe.function.result
    return made if shape_of(said).opaque else fitted(made, hint_kind(said))


_COUNTED = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "dict": dict}


def _check_container(name: str, shape: ValueShape) -> None:
    """Refuse a list where a tuple is wanted, or the like: a row does not tell them apart."""
    kind = _COUNTED[name]
    held = [container.kind for container in shape.containers]
    if takes_any(kind, shape) or any(holds(kind, other) for other in held):
        return
    if (kind is set and frozenset in held) or (kind is tuple and shape.places):
        return
    wanted = hint_text(shape.hint)
    raise NoColumnError(f"a {name} is given, and {wanted} is wanted", accepted=wanted)


def _or_default(choice: ir.Choice, default: Default, value: Value, wanted: ColumnKind) -> Value:
    """The default in place of None, and nowhere else."""
    made = _chosen(choice, replace(value, kind=value.kind.without_none()), wanted)
    other, none = _default(default, wanted), terms.is_null(value.term)
    ok = terms.case((none, other.ok), otherwise=made.ok)
    return Value(wanted, terms.case((none, other.term), otherwise=made.term), both(value.ok, ok))


def _chosen(choice: ir.Choice, value: Value, wanted: ColumnKind) -> Value:
    """A row does not say which subtype a value is of, so all must give the same result."""
    ways: list[tuple[type, ir.Recipe]] = [*choice.containers, *choice.cases.items()]
    ways = [way for way in ways if not _is_abstract(way[0])] or ways
    if len(ways) == 1:
        return _made(ways[0][1], value, wanted)
    recipes = dict(ways)
    results = [(met, _met(met, lambda cls: _made(recipes[cls], value, wanted))) for met in recipes]
    first, made = results[0]
    for met, other in results[1:]:
        if not _are_same(made, other):
            why = (
                f"{first.__name__} and {met.__name__} are translated in different ways, and a row "
                "does not say which it has"
            )
            raise NoColumnError(why, accepted="one way for all types that can be met there")
    return made


def _built(build: ir.Build, value: Value, wanted: ColumnKind) -> Value:
    _check_maker(build)
    if wanted.cls is None:
        raise NoColumnError(f"{build.target.__name__} is made, not {wanted}", accepted=f"{wanted}")
    visible, defaults = declared_defaults(wanted.cls), declared_defaults(build.target)
    parts: dict[str, Value] = {}
    for name in visible:
        try:
            kind = attribute_kind(wanted.cls, name)
            if name in build.parts:
                parts[name] = _made(build.parts[name], part_of(value, name), kind)
            else:
                parts[name] = _default(defaults.get(name), kind)
        except NoColumnError as refusal:
            why = f"{build.target.__name__}.{name}: {refusal.why}"
            raise NoColumnError(why, accepted=refusal.accepted) from None
    for name, recipe in build.parts.items():
        if name not in visible and not _is_harmless(recipe):
            why = f"{build.target.__name__}.{name} is made, and has no column: it may fail unseen"
            raise NoColumnError(why, accepted="attributes that the declared type has")
    return struct(value, wanted, parts)


def _is_harmless(recipe: ir.Recipe) -> bool:
    match recipe:
        case ir.Each():
            return _is_harmless(recipe.inner)
        case ir.Choice():
            ways = [*recipe.cases.values(), *(way for _, way in recipe.containers)]
            return all(map(_is_harmless, ways)) and not isinstance(recipe.none, ir.Missing)
    return isinstance(recipe, ir.Keep | ir.Duplicate)


_EMPTY: dict[Any, Any] = {kind: kind() for kind in (list, tuple, set, frozenset, dict)}


def _default(default: Default | None, wanted: ColumnKind) -> Value:
    if default is None:
        why = "it is computed by its class"
        raise NoColumnError(why, accepted="an attribute with a plain default")
    if default.factory is None:
        return data(default.value, wanted)
    if default.factory not in _EMPTY:
        why = "its default is made by a function of its class"
        raise NoColumnError(why, accepted="a default that is plain data, or an empty container")
    return data(_EMPTY[default.factory], wanted)


def _check_maker(build: ir.Build) -> None:
    """Refuse classes whose objects may differ from what they are made from."""
    name, accepted = build.target.__name__, "dataclasses, attrs classes and Structs without code"
    if build.recursive:
        raise NoColumnError(f"{name} is made of itself", accepted="classes whose parts have an end")
    maker = maker_of(build.target)
    if (maker.by_state and not maker.is_assigned) or not _is_plain(build.target):
        why = f"the constructor of {name} may change what it is given"
        raise NoColumnError(why, accepted=f"{accepted} in their constructors")


def _is_plain(cls: Any) -> bool:
    """Whether a constructor only assigns attributes."""
    hooks = ("__post_init__", "__attrs_pre_init__", "__attrs_post_init__")
    if any(hasattr(cls, hook) for hook in hooks):
        return False
    if kind_of(cls) == "struct":  # it cannot define __init__
        return type(cls) is type(msgspec.Struct) and cls.__new__ is msgspec.Struct.__new__
    if type(cls).__call__ is not type.__call__ or cls.__new__ is not object.__new__:
        return False
    written = getattr(getattr(cls.__init__, "__code__", None), "co_filename", "")
    assigns = cls.__setattr__ is object.__setattr__
    match kind_of(cls):
        case "dataclass":
            return written == "<string>" and (assigns or cls.__dataclass_params__.frozen)
        case "attrs":
            silent = not any(part.validator or part.converter for part in cls.__attrs_attrs__)
            is_frozen = open_attributes(cls) is not None
            return written.startswith("<attrs") and silent and (assigns or is_frozen)
    return False
