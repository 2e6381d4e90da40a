"""What `import polycast as pc` offers: these names and no others."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable

import pytest

import polycast
import polycast.testing
from polycast import errors

COLLECTIONS = [
    "DAArray",
    "DACollection",
    "DAList",
    "DASortedBag",
    "DASortedSet",
    "DAStrongBag",
    "DAStrongSet",
    "DAWeakBag",
    "DAWeakSet",
]
ERRORS = [
    "AccessDenied",
    "AccessError",
    "BadCallback",
    "BadCertificate",
    "BadCheckpoint",
    "BadContext",
    "BadResultError",
    "ContextConflictError",
    "EventTooDeepError",
    "BadFrame",
    "BadGrant",
    "BadOption",
    "BadTokens",
    "BadTopic",
    "BrokerError",
    "BrokerRefused",
    "BrokerUnreachable",
    "BusClosed",
    "Cancelled",
    "ContextError",
    "ContextFrozen",
    "ContextRefused",
    "CutOff",
    "DurableChanged",
    "Exposed",
    "FilterError",
    "FilterMistake",
    "FilterSyntaxError",
    "FilterTooCostly",
    "FilterTypeError",
    "ForkedError",
    "HistoryGone",
    "LeaseExpired",
    "LimitReached",
    "MethodNotHere",
    "NameClash",
    "NoHistory",
    "NoRow",
    "NoSparkForm",
    "NoSparkType",
    "NotAPullCollection",
    "NotAStore",
    "NotAType",
    "NotAvailable",
    "NotAwaitedError",
    "NotDecodable",
    "NotRoutable",
    "NotSerialisable",
    "NotSettled",
    "NotShareable",
    "NotTranslated",
    "PipelineError",
    "PipelineFailed",
    "PipelineTakenOver",
    "PolycastError",
    "PublishBufferFullError",
    "PublishUnknown",
    "QueueFull",
    "StoreClosed",
    "StoreDamaged",
    "StoreError",
    "StoreFailed",
    "StoreReplacedError",
    "SubscriptionEnded",
    "TakenOver",
    "TokenExposedError",
    "WouldDeadlock",
]
OTHERS = [
    "Advertisement",
    "Bus",
    "Clock",
    "Context",
    "DeadLetter",
    "DeadLetters",
    "Delivery",
    "Explanation",
    "Federation",
    "Filter",
    "Health",
    "Identity",
    "Matcher",
    "Opaque",
    "Options",
    "PublishOptions",
    "Receipt",
    "Retention",
    "Selector",
    "Stream",
    "StructuredEvent",
    "TaggedUnion",
    "Subscription",
    "SubscriptionHealth",
    "Supply",
    "Undelivered",
    "Unit",
    "all_of",
    "conditions",
    "conforming",
    "directly_conforming",
    "etcl_text",
    "event",
    "filterable_xml",
    "from_xmlrpc",
    "identity",
    "impure",
    "interface_of",
    "lift",
    "maps_to",
    "parse_filter",
    "structured",
    "to_xmlrpc",
    "topic",
    "transform_with",
    "unchecked",
    "xpath_text",
]
TESTING = ["ManualClock", "Recorder", "TestBus"]


def beyond(module: types.ModuleType, allowed: Iterable[str]) -> set[str]:
    """The public names of a module that are neither allowed nor modules below it."""
    below = f"{module.__name__}."
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not (isinstance(value, types.ModuleType) and value.__name__.startswith(below))
    } - set(allowed)


def own_docstring(value: object) -> str | None:
    """The docstring of a class or function itself; an inherited one does not count."""
    return vars(value).get("__doc__") if isinstance(value, type) else inspect.getdoc(value)


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(polycast.__all__) == sorted([*COLLECTIONS, *ERRORS, *OTHERS])


def test_the_public_names_are_listed_once_and_in_order() -> None:
    assert polycast.__all__ == sorted(set(polycast.__all__))


def test_the_names_for_tests_are_exactly_these() -> None:
    assert sorted(polycast.testing.__all__) == TESTING


@pytest.mark.parametrize("name", polycast.__all__)
def test_a_public_name_exists_and_says_what_it_is(name: str) -> None:
    assert own_docstring(getattr(polycast, name))


@pytest.mark.parametrize("name", polycast.testing.__all__)
def test_a_name_for_tests_exists_and_says_what_it_is(name: str) -> None:
    assert own_docstring(getattr(polycast.testing, name))


def test_nothing_else_is_public() -> None:
    assert beyond(polycast, polycast.__all__) == set()


def test_dir_shows_what_is_there() -> None:
    assert set(dir(polycast)) >= set(polycast.__all__)


def test_a_star_import_gives_all_public_names() -> None:
    given: dict[str, object] = {}
    exec("from polycast import *", given)
    assert set(polycast.__all__) <= set(given)


def test_the_public_errors_are_all_errors() -> None:
    public = {
        name
        for name in polycast.__all__
        if isinstance(value := getattr(polycast, name), type) and issubclass(value, Exception)
    }
    assert public == set(ERRORS) == set(errors.__all__)


@pytest.mark.parametrize("name", ERRORS)
def test_a_public_error_derives_from_the_root(name: str) -> None:
    assert issubclass(getattr(polycast, name), polycast.PolycastError)


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_drawn_in_the_tree(name: str) -> None:
    assert name in (errors.__doc__ or "")


def test_a_name_that_is_no_module_below_is_beyond() -> None:
    module = types.ModuleType("shop")
    vars(module).update(
        Order=int,
        _hidden=3,
        orders=types.ModuleType("shop.orders"),
        json=types.ModuleType("json"),
    )
    assert beyond(module, ["Order"]) == {"json"}


def test_an_inherited_docstring_does_not_count() -> None:
    class Documented:
        """It says something."""

    class Silent(Documented):
        pass

    assert own_docstring(Documented)
    assert not own_docstring(Silent)
