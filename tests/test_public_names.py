"""What `import polycast as pc` offers: these names and no others."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable

import pytest

import polycast
import polycast.testing
from polycast import errors, lazy_names
from polycast.languages.etcl.grammar import etcl_text
from polycast.languages.xpath.writer import xpath_text

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
    "AccessDeniedError",
    "AccessError",
    "BadCallbackError",
    "BadCertificateError",
    "BadCheckpointError",
    "BadContextError",
    "BadResultError",
    "ContextConflictError",
    "EventTooDeepError",
    "BadFrameError",
    "BadGrantError",
    "BadOptionError",
    "BadTokensError",
    "BadTopicError",
    "BrokerError",
    "BrokerRefusedError",
    "BrokerUnreachableError",
    "BusClosedError",
    "SubscriptionCancelledError",
    "ContextError",
    "ContextFrozenError",
    "ContextRefusedError",
    "CutOffError",
    "DurableChangedError",
    "ExposedError",
    "FilterError",
    "FilterMistakeError",
    "FilterSyntaxError",
    "FilterTooCostlyError",
    "FilterTypeError",
    "ForkedError",
    "HistoryGoneError",
    "LeaseExpiredError",
    "LimitReachedError",
    "MethodNotHereError",
    "NameClashError",
    "NoHistoryError",
    "NoRowError",
    "NoSparkFormError",
    "NoSparkTypeError",
    "NotAPullCollectionError",
    "NotAStoreError",
    "NotATypeError",
    "NotAvailableError",
    "NotAwaitedError",
    "NotDecodableError",
    "NotRoutableError",
    "NotSerialisableError",
    "NotSettledError",
    "NotShareableError",
    "NotTranslatedError",
    "PipelineError",
    "PipelineFailedError",
    "PipelineTakenOverError",
    "PolycastError",
    "PublishBufferFullError",
    "PublishUnknownError",
    "QueueFullError",
    "StoreClosedError",
    "StoreDamagedError",
    "StoreError",
    "StoreFailedError",
    "StoreReplacedError",
    "SubscriptionEndedError",
    "TakenOverError",
    "TokenExposedError",
    "WouldDeadlockError",
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
    "SubscribeOptions",
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
    "event",
    "filterable_xml",
    "from_xmlrpc",
    "impure",
    "interface_of",
    "lift",
    "maps_to",
    "parse_filter",
    "rules",
    "structured",
    "to_xmlrpc",
    "topic",
    "transform_with",
    "unchecked",
]
HEAVY = ["Broker", "Pipeline", "TestBus"]
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


@pytest.mark.parametrize("name", HEAVY)
def test_a_heavy_name_is_there_when_it_is_asked_for(name: str) -> None:
    assert own_docstring(getattr(polycast, name))


def test_the_heavy_names_are_exactly_these() -> None:
    assert sorted(lazy_names.HEAVY) == HEAVY


@pytest.mark.parametrize(("name", "new"), sorted(lazy_names.RENAMED.items()))
def test_an_old_name_of_an_error_is_the_new_one_and_warns(name: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"polycast\.{name} is called polycast\.{new} now"):
        assert getattr(polycast, name) is getattr(polycast, new)


@pytest.mark.parametrize(
    ("name", "new"),
    [
        ("identity", polycast.rules.identity),
        ("Options", polycast.SubscribeOptions),
        ("etcl_text", etcl_text),
        ("xpath_text", xpath_text),
    ],
)
def test_an_old_name_that_has_moved_is_what_it_was_and_warns(name: str, new: object) -> None:
    with pytest.warns(DeprecationWarning, match="goes with the next release"):
        assert getattr(polycast, name) is new


def test_an_old_name_warns_where_it_is_used() -> None:
    with pytest.warns(DeprecationWarning, match="SubscriptionCancelledError") as seen:
        _ = polycast.Cancelled  # type: ignore[attr-defined]
    assert seen[0].filename == __file__


def test_a_name_that_never_was_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Buss'"):
        _ = polycast.Buss  # type: ignore[attr-defined]


def test_every_error_is_called_one() -> None:
    assert [name for name in errors.__all__ if not name.endswith("Error")] == []


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
