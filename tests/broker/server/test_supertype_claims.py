"""Whatever a tenant describes, and in whatever order: what it has published stays what it was."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec
import pytest
from test_ownership_of_types import PAYMENT, described

import polycast as pc
from polycast.broker.server.access import Principal, Rights
from polycast.broker.server.authorization import Authorization
from polycast.broker.server.broker import Broker
from polycast.broker.server.ownership import PublisherOwners
from polycast.broker.server.type_catalog import MOST_STEPS, SupertypeClaims, TypeCatalog
from polycast.stores import Draft
from polycast.typesystem import Description, ancestors

NAMES = ["evil.A", "evil.B", "evil.C", "evil.D"]
ALIASES = ["evil.old", "evil.older", *NAMES]
SEEDS = 300


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    found = Broker()
    yield found
    found.close()


def owner_of(name: str) -> str:
    return name.partition(".")[0]


class Tenant:
    """The owner `evil`, who may describe and publish its own, at a broker that knows payments."""

    def __init__(self, broker: Broker) -> None:
        rights = Rights.of(publish=["evil.*"], subscribe=["evil.*"], describe=["evil.*"])
        self.type_catalog = TypeCatalog(broker.store)
        self.type_catalog.add([PAYMENT])
        about = (self.type_catalog, broker.store, owner_of)
        options = {"usage": broker.usage, "publishers": PublisherOwners()}
        self.authorization = Authorization(
            Principal("evil", rights, owner="evil"), *about, **options
        )  # type: ignore[arg-type]
        self.published: dict[str, Description] = {}
        self.private = 0

    def describe(self, batch: list[Description]) -> None:
        new = list({each.hash: each for each in self.type_catalog.unknown(batch)}.values())
        allowed = self.authorization.types.describable(new)
        self.type_catalog.add([each for each in new if each.hash in allowed])
        self.private += len(new) - len(allowed)

    def publish_all(self, known: list[Description]) -> None:
        for each in known:
            draft = Draft(each.name, each.version, each.hash, pc.Identity("x", 1, 1), "json", b"{}")
            try:
                self.authorization.events.check_record(draft.at(0.0))
            except pc.AccessDeniedError:
                continue
            self.published[each.hash] = each

    def forged(self) -> list[Description]:
        """What it has published, and is a payment by now."""
        newest = self.type_catalog.newest
        found = self.published.values()
        return [each for each in found if PAYMENT.name in ancestors(each, newest)]


def drawn(draw: Random) -> Description:
    above = draw.sample([*NAMES, PAYMENT.name, "evil.old"], draw.randint(0, 2))
    found = described(draw.choice(NAMES), *above, version=draw.randint(1, 6))
    if draw.random() < 0.25:
        found = msgspec.structs.replace(found, aliases=(draw.choice(ALIASES),))
    assert isinstance(found, Description)
    return found


def test_nothing_that_was_published_becomes_a_payment(broker: Broker) -> None:
    published = private = 0
    for seed in range(SEEDS):
        draw, tenant = Random(seed), Tenant(broker)
        said: list[Description] = []
        for _ in range(draw.randint(2, 8)):
            batch = [drawn(draw) for _ in range(draw.randint(1, 4))]
            tenant.describe(batch)
            said += batch
            assert tenant.forged() == [], f"seed {seed}"
            tenant.publish_all(said)
            assert tenant.forged() == [], f"seed {seed}"
        published += len(tenant.published)
        private += tenant.private
    assert min(published, private) > SEEDS


def test_looking_up_has_an_end(broker: Broker) -> None:
    tenant = Tenant(broker)
    tenant.describe([described("evil.Below", "evil.A")])
    names = [f"evil.N{number}" for number in range(MOST_STEPS)]
    few, many = described("evil.A", *names[:-9]), described("evil.A", *names, version=2)
    asked: list[str] = []

    def is_free(below: str, above: str) -> bool:
        asked.append(above)
        return True

    assert SupertypeClaims([few], tenant.type_catalog, is_free).raises_nothing_known(few)
    asked.clear()
    assert not SupertypeClaims([many], tenant.type_catalog, is_free).raises_nothing_known(many)
    assert len(asked) <= MOST_STEPS
