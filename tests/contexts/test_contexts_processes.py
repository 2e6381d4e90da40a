"""Several processes over one file, each with the modules of its own context only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from parties import USOrder, calls, make_parties, order

import polycast as pc

Eventually = Callable[[Callable[[], object]], None]

# What all parties refer to.
REFERENCE = """
from dataclasses import dataclass
import polycast as pc

@dataclass(frozen=True)
class Metre:
    value: float

@dataclass
class Parcel:
    number: int
    length: Metre
    route: list[str]

def make_root():
    return pc.Context("root", types=[Parcel, Metre])
"""

# A party: what it calls things, and how many of its units a metre has.
PARTY = """
from dataclasses import dataclass
import polycast as pc
from reference import Metre, Parcel, make_root

@dataclass(frozen=True)
class {unit}:
    value: float

@dataclass
class {name}Parcel:
    number: int
    length: {unit}
    route: list[str]

@dataclass
class {name}Express({name}Parcel):
    hours: int = 1

@dataclass
class {name}Secret:
    text: str

def incoming(length: Metre) -> {unit}:
    return {unit}(length.value * {factor})

def outgoing(length: {unit}) -> Metre:
    return Metre(length.value / {factor})

def make_context():
    made = pc.Context(
        "{context}",
        parent=make_root(),
        types=[{unit}, {name}Parcel, {name}Express, {name}Secret],
    )
    made.map(Parcel, {name}Parcel, "?")
    made.map({name}Parcel, Parcel, "!")
    made.rule("Parcel.length", incoming)
    made.rule("{name}Parcel.length", outgoing)
    return made
"""
PARTIES = {
    "eu": {"name": "EU", "unit": "Centimetre", "factor": "100.0", "context": "eu"},
    "us": {"name": "US", "unit": "Foot", "factor": "4.0", "context": "us"},
}

BEGIN = """
import dataclasses, json, sys, threading
import polycast as pc

def told(event):
    if dataclasses.is_dataclass(event):
        fields = [(field.name, getattr(event, field.name)) for field in dataclasses.fields(event)]
    else:
        fields = [(name, getattr(event, name)) for name in type(event).__struct_fields__]
    made = {key: told(value) if hasattr(value, "value") else value for key, value in fields}
    return {"type": type(event).__name__, **made}

def listen(bus, what, count, **options):
    seen, full = [], threading.Event()
    def see(event):
        seen.append(told(event))
        if len(seen) >= count:
            full.set()
    bus.subscribe(what, see, **options)
    if count:
        assert full.wait(10), seen
    assert bus.flush(10)
    print(json.dumps({"seen": seen, "modules": sorted(sys.modules)}))
"""

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'events.db'}"


@pytest.fixture
def run(tmp_path: Path, url: str) -> Run:
    """Run a script in a process that finds only the modules it is given; what it prints."""
    texts = {"reference": REFERENCE}
    texts.update({f"party_{key}": PARTY.format(**party) for key, party in PARTIES.items()})
    for name, text in texts.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.py").write_text(text)

    def start(script: str, *modules: str) -> dict[str, Any]:
        paths = [str(tmp_path / module) for module in modules]
        path = tmp_path / "script.py"
        path.write_text(f"url = {url!r}\n{BEGIN}\n{script}")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        command = [sys.executable, "-W", "error", str(path)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout)) if done.stdout else {}

    return start


PUBLISH = """
from party_eu import *
with pc.Bus(url, context=make_context()) as bus:
    bus.publish(EUParcel(1, Centimetre(250.0), ["Rome"]))
    bus.publish(EUSecret("stays"))
    bus.publish(EUExpress(2, Centimetre(50.0), ["Oslo"], hours=3))
    bus.publish(Parcel(3, Metre(0.25), ["Bern"]), topic="/bern")
"""
LISTEN_IN_US = """
from party_us import *
with pc.Bus(url, context=make_context()) as bus:
    far = lambda p: p.length.value >= 2
    listen(bus, USParcel, 2, durable="books", where=far, since="beginning")
"""
IN_US = [
    {"type": "USParcel", "number": 1, "length": {"type": "Foot", "value": 10.0}, "route": ["Rome"]},
    {"type": "USParcel", "number": 2, "length": {"type": "Foot", "value": 2.0}, "route": ["Oslo"]},
]


def test_a_subscriber_needs_only_what_is_its_own(run: Run) -> None:
    run(PUBLISH, "reference", "party_eu")
    found = run(LISTEN_IN_US, "reference", "party_us")
    assert found["seen"] == IN_US
    assert "party_eu" not in found["modules"]


def test_a_durable_that_was_there_before_gets_it_later(run: Run) -> None:
    subscribe = LISTEN_IN_US.replace("USParcel, 2,", "USParcel, 0,")
    assert run(subscribe, "reference", "party_us")["seen"] == []
    run(PUBLISH, "reference", "party_eu")
    found = run(LISTEN_IN_US, "reference", "party_us")
    assert found["seen"] == IN_US


def test_who_has_no_modules_sees_the_root_form(run: Run) -> None:
    run(PUBLISH, "reference", "party_eu")
    found = run("with pc.Bus(url) as bus: listen(bus, object, 3, since='beginning')")
    parcels = [
        (event["type"], event["number"], event["length"]["value"], event["route"])
        for event in found["seen"]
    ]
    assert parcels == [
        ("Parcel", 1, 2.5, ["Rome"]),
        ("Parcel", 2, 0.5, ["Oslo"]),
        ("Parcel", 3, 0.25, ["Bern"]),
    ]
    assert not {"reference", "party_eu"} & set(found["modules"])


def test_the_own_context_gets_what_was_published_in_another_process(run: Run) -> None:
    run(PUBLISH, "reference", "party_eu")
    script = """
from party_eu import *
with pc.Bus(url, context=make_context()) as bus:
    listen(bus, object, 4, since="beginning")
"""
    found = run(script, "reference", "party_eu")
    types = [event["type"] for event in found["seen"]]
    assert types == ["EUParcel", "EUSecret", "EUExpress", "Parcel"]


def test_they_answer_each_other(run: Run) -> None:
    run(PUBLISH, "reference", "party_eu")
    answer = """
from party_us import *
with pc.Bus(url, context=make_context()) as bus:
    bus.publish(USParcel(7, Foot(8.0), ["Reno"]))
"""
    run(answer, "reference", "party_us")
    script = """
from party_eu import *
with pc.Bus(url, context=make_context()) as bus:
    listen(bus, EUParcel, 1, where=lambda p: p.number == 7, since="beginning")
"""
    found = run(script, "reference", "party_eu")
    [parcel] = found["seen"]
    assert (parcel["type"], parcel["length"]["value"]) == ("EUParcel", 200.0)
    assert "party_us" not in found["modules"]


def test_a_letter_of_another_process_can_be_replayed_by_whoever_can_see_it(
    run: Run, url: str, tmp_path: Path
) -> None:
    (tmp_path / "party_us" / "party_us.py").write_text(
        PARTY.format(**PARTIES["us"]).replace(
            "    return Foot(",
            "    if length.value > 2: raise OSError('too long')\n    return Foot(",
        )
    )
    run(LISTEN_IN_US.replace("USParcel, 2,", "USParcel, 0,"), "reference", "party_us")
    run(PUBLISH, "reference", "party_eu")
    run(LISTEN_IN_US.replace("USParcel, 2,", "USParcel, 1,"), "reference", "party_us")
    with pc.Bus(url) as bus:
        [letter] = bus.dead_letters()
        assert letter.subscription == "context us"
    (tmp_path / "party_us" / "party_us.py").write_text(PARTY.format(**PARTIES["us"]))
    with pc.Bus(url) as bus:
        assert bus.dead_letters().replay() == 1
    found = run(LISTEN_IN_US.replace("USParcel, 2,", "USParcel, 1,"), "reference", "party_us")
    assert IN_US[0] in found["seen"]


def test_two_buses_over_one_file_make_one_letter(url: str, eventually: Eventually) -> None:
    calls.clear()
    seen: list[Any] = []
    federations = [make_parties().federation for _ in range(2)]
    with (
        pc.Bus(url, federation=federations[0]) as one,
        pc.Bus(url, federation=federations[1]) as two,
    ):
        for bus in (one, two):
            bus.within("us").subscribe(USOrder, lambda event: seen.append(event.number))
        one.publish_many([order(1, -1.0), order(2)])
        eventually(lambda: seen == [2, 2])
        eventually(lambda: calls["to_dollars"] == 4)
        assert one.flush(5)
        assert two.flush(5)
        assert len(one.dead_letters()) == 1


def test_a_durable_in_a_context_outlives_its_bus(url: str, eventually: Eventually) -> None:
    before: list[Any] = []
    after: list[Any] = []
    with pc.Bus(url, federation=make_parties().federation) as bus:
        bus.within("us").subscribe(USOrder, lambda e: before.append(e.number), durable="books")
        bus.publish(order(1))
        assert bus.flush(5)
    with pc.Bus(url, federation=make_parties().federation) as bus:
        bus.publish(order(2))
        bus.within("us").subscribe(USOrder, lambda e: after.append(e.number), durable="books")
        eventually(lambda: (before, after) == ([1], [2]))


def test_history_is_seen_by_the_context_as_it_was_then(url: str, eventually: Eventually) -> None:
    party, seen = make_parties(), list[Any]()
    with pc.Bus(url, federation=party.federation) as bus:
        bus.publish(order(1))
        party.mend()
        bus.publish(order(2))
        bus.within("us").subscribe(
            USOrder, lambda event: seen.append(event.price.amount), since="beginning"
        )
        eventually(lambda: seen == [20.0, 40.0])
