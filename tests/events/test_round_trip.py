"""Round trips over generated classes of every kind, in both codecs."""

from __future__ import annotations

from typing import Any

import msgspec
from generated_classes import classes, events, same, slow_to_make
from hypothesis import given
from wire_trip import CODECS

from polycast.events import Codec
from polycast.typesystem import Description, Registry, describe


@CODECS
@given(event=events())
@slow_to_make
def test_an_event_comes_back_as_it_was(codec: Codec, event: Any) -> None:
    registry = Registry()
    encoded = codec.encode(event, registry=registry)
    assert same(codec.decode(encoded, registry=registry), event)
    # Once more, by what was prepared the first time.
    again = codec.encode(event, registry=registry)
    assert again.payload == encoded.payload
    assert same(codec.decode(again, registry=registry), event)


@CODECS
@given(event=events())
@slow_to_make
def test_who_lacks_the_classes_loses_nothing_and_republishing_neither(
    codec: Codec, event: Any
) -> None:
    here, elsewhere = Registry(), Registry()
    encoded = codec.encode(event, registry=here)
    for description in here.descriptions():
        elsewhere.add(description)
    made = codec.decode(encoded, registry=elsewhere)
    assert type(made) is not type(event)
    assert same(made, event, classes=False)
    again = codec.encode(made, registry=elsewhere)
    assert (again.name, again.version, again.hash) == (encoded.name, encoded.version, encoded.hash)
    assert same(codec.decode(again, registry=here), event)


@given(found=classes())
@slow_to_make
def test_descriptions_of_generated_classes_are_data(found: list[Any]) -> None:
    for made in found:
        description = describe(made.cls)
        data = msgspec.json.encode(description)
        assert msgspec.json.decode(data, type=Description) == description
        assert {part.name for part in description.attributes} == set(made.fields)
