"""Names of types belong to who may describe them: nobody else gets in by saying what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import polycast as pc
from polycast.broker.server.run import Serving
from polycast.broker.server.tokenfile import load_tokens, new_token
from polycast.matching.interest import Definition, SelectedType
from polycast.stores import Run
from polycast.typesystem import AttributeDescription, Description, MemberDescription, TypeExpression

OpenBus = Callable[..., pc.Bus]
Serve = Callable[..., Serving]

NUMBER = TypeExpression("class", "builtins.int")


def described(
    name: str, *above: str, fields: tuple[str, ...] = ("amount",), version: int = 1
) -> Any:
    """A type that no process has a class of."""
    return Description(
        name,
        version=version,
        supertypes=above,
        attributes=tuple(AttributeDescription(each, NUMBER) for each in fields),
        members=tuple(MemberDescription(each, "field", NUMBER) for each in fields),
    )


PAYMENT = described("a.Payment")
FORGED = described("a.Payment", "evil.Base", version=2)
BASE = described("evil.Base", fields=())
A = "publish = ['a.*']\nsubscribe = ['a.*']\ndescribe = ['a.*']"
EVIL = "publish = ['evil.*']\nsubscribe = ['evil.*']\ndescribe = ['evil.*']"


class Client:
    """A client that says what it likes, over the wire."""

    def __init__(self, bus: pc.Bus) -> None:
        self.store = bus._engine.store  # type: ignore[attr-defined]
        self._publisher, self._last = bus.publisher, 0

    def describe(self, *descriptions: Description) -> None:
        self.store.describe(list(descriptions)).result(5)

    def publish(
        self,
        described: Description,
        *,
        name: str | None = None,
        payload: bytes = b'{"amount": 1}',
    ) -> int:
        self._last += 1
        identity = pc.Identity(self._publisher, 1, self._last)
        head = (name or described.name, described.version, described.hash, identity)
        found = self.store.submit([Run(*head, "json", [payload])]).result(5)
        return int(found[0])

    def wants(self, described: Description) -> list[str]:
        """The names of all events that a subscription to a type is sent."""
        one = SelectedType(described.name, described.version, described.hash)
        definition = Definition(described.name, "WEAK", types=(one,))
        self.store.want(f"to {described.hash}", [definition.encoded()])
        found = self.store.read(1, wanted_by=f"to {described.hash}")
        return [each.record.name for each in found.entries]


@pytest.fixture
def clients(serve: Serve, tokens: Any, open_bus: OpenBus) -> Callable[..., list[Client]]:
    def make(**rights: str) -> list[Client]:
        known, secrets = tokens(**rights)
        url = serve(tokens=known).url
        return [Client(open_bus(url, token=secrets[name])) for name in rights]

    return make


def test_a_tenant_cannot_read_what_it_describes_as_its_own(clients: Any) -> None:
    shop, evil = clients(shop=A, evil=EVIL)
    shop.describe(PAYMENT)
    evil.describe(BASE, FORGED)
    assert shop.publish(PAYMENT)
    assert evil.wants(BASE) == []
    assert evil.wants(FORGED) == []
    assert shop.wants(PAYMENT) == ["a.Payment"]


def test_a_tenant_cannot_forge_what_it_describes_as_its_own(clients: Any) -> None:
    shop, evil = clients(shop=A, evil=EVIL)
    shop.describe(PAYMENT)
    evil.describe(BASE, FORGED)
    for each in (PAYMENT, FORGED):
        with pytest.raises(pc.AccessDeniedError, match=r"publish a\.Payment"):
            evil.publish(each)
    assert shop.wants(PAYMENT) == []


@pytest.mark.parametrize("fields", [("amount",), ()])
def test_a_subtype_of_what_is_anothers_needs_a_grant_on_that(
    clients: Any, fields: tuple[str, ...]
) -> None:
    fake = described("evil.Fake", "a.Payment", fields=fields)
    shop, evil, partner = clients(
        shop=A,
        evil=EVIL,
        partner="publish = ['evil.*', 'a.Payment']\nowner = 'evil'",
    )
    shop.describe(PAYMENT)
    evil.describe(fake)
    with pytest.raises(
        pc.AccessDeniedError, match=r"derives from a\.Payment of shop.*covers a\.Payment"
    ):
        evil.publish(fake)
    assert partner.publish(fake)
    assert shop.wants(PAYMENT) == ([] if not fields else ["evil.Fake"])


MIDDLE, TOP = described("evil.Middle"), described("evil.Top")
RAISED = described("evil.Middle", "a.Payment", version=2)


def alias(description: Description, *aliases: str) -> Description:
    return msgspec.structs.replace(description, aliases=aliases)


ALSO_KNOWN_AS = alias(described("evil.Other", "a.Payment"), "evil.Top")


@pytest.mark.parametrize(
    "raising",
    [
        [[RAISED]],
        [[described("evil.Middle", "evil.Next", version=2)], [described("evil.Next", "a.Payment")]],
        [[described("evil.Next", "a.Payment")], [described("evil.Middle", "evil.Next", version=2)]],
        [[described("evil.Middle", "evil.Next", version=2), described("evil.Next", "a.Payment")]],
        [[described("evil.Next", "a.Payment"), described("evil.Middle", "evil.Next", version=2)]],
        [[described("evil.Top", "a.Payment")]],
        [[ALSO_KNOWN_AS]],
        [[alias(described("evil.New"), "evil.Top"), described("evil.New", "a.Payment", version=2)]],
        [
            [alias(described("evil.New"), "evil.Old")],
            [
                described("evil.Middle", "evil.Old", version=2),
                described("evil.New", "a.Payment", version=2),
            ],
        ],
        [
            [
                described("evil.Middle", "evil.Middle", version=2),
                described("evil.Top", "evil.Next"),
                described("evil.Next", "evil.Middle"),
                described("evil.Middle", "a.Payment", version=3),
            ]
        ],
        [[described("evil.Middle", *(f"evil.N{n}" for n in range(150)), "a.Payment", version=2)]],
        [[described("evil.Middle", *(f"evil.N{n}" for n in range(9000)), "a.Payment", version=2)]],
    ],
)
def test_what_was_published_does_not_become_anothers_by_a_type_above_it(
    clients: Any, raising: list[list[Description]]
) -> None:
    shop, evil = clients(shop=A, evil=EVIL)
    shop.describe(PAYMENT)
    evil.describe(described("evil.Fake", "evil.Middle", "evil.Top"), MIDDLE)
    assert evil.publish(described("evil.Fake", "evil.Middle", "evil.Top"))
    for each in raising:
        evil.describe(*each)
    assert shop.wants(PAYMENT) == []
    assert evil.publish(described("evil.Fake", "evil.Middle", "evil.Top"))
    assert shop.wants(PAYMENT) == []


def test_nor_by_two_types_that_one_transaction_describes(clients: Any) -> None:
    shop, evil = clients(shop=A, evil=EVIL)
    fake = described("evil.Fake", "evil.Middle")
    shop.describe(PAYMENT)
    evil.describe(fake, MIDDLE)
    assert evil.publish(fake)

    def work(tx: Any) -> None:
        tx.describe(described("evil.Middle", "evil.Next", version=2))
        tx.describe(described("evil.Next", "a.Payment"))

    with pytest.raises(pc.AccessDeniedError, match="its known subtypes would be"):
        evil.store.write(work).result(5)
    assert shop.wants(PAYMENT) == []


def test_an_event_of_such_a_type_is_refused_and_the_error_names_the_grant(clients: Any) -> None:
    shop, evil = clients(shop=A, evil=EVIL)
    shop.describe(PAYMENT)
    evil.describe(MIDDLE, described("evil.Fake", "evil.Middle"))
    evil.describe(RAISED)
    with pytest.raises(
        pc.AccessDeniedError, match=r"publish the type evil\.Middle.*publish grant that"
    ):
        evil.publish(RAISED)


def test_who_may_publish_as_anothers_may_move_its_types_there(clients: Any) -> None:
    shop, partner = clients(
        shop=A, partner="publish = ['evil.*', 'a.Payment']\ndescribe = ['evil.*']"
    )
    fake = described("evil.Fake", "evil.Middle")
    shop.describe(PAYMENT)
    partner.describe(fake, MIDDLE)
    assert partner.publish(fake)
    partner.describe(RAISED)
    assert partner.publish(RAISED)
    assert shop.wants(PAYMENT) == ["evil.Fake", "evil.Middle"]


def test_an_owner_goes_on_describing_what_derives_from_anothers_already(clients: Any) -> None:
    shop, partner, scribe = clients(
        shop=A,
        partner="publish = ['our.*', 'a.Payment']\ndescribe = ['our.*']\nowner = 'our'",
        scribe="describe = ['our.*']\nowner = 'our'",
    )
    bill, rush = described("our.Bill", "a.Payment"), described("our.Rush", "our.Bill")
    newer = described("our.Bill", "a.Payment", fields=("amount", "note"), version=2)
    shop.describe(PAYMENT)
    partner.describe(rush, bill)
    scribe.describe(newer, described("our.Note"), described("our.Rush", "our.Note", version=2))
    for each in (bill, rush, newer):
        assert partner.publish(each)
    assert shop.wants(PAYMENT) == ["our.Bill", "our.Rush", "our.Bill"]


def test_within_one_owner_the_own_class_suffices(clients: Any) -> None:
    refund = described("a.Refund", "a.Payment")
    shop, till = clients(shop=A, till="publish = ['a.Refund']\nowner = 'shop'")
    shop.describe(PAYMENT, refund)
    assert till.publish(refund)


def test_an_event_is_what_its_hash_says_and_no_other(clients: Any) -> None:
    shop, evil = clients(shop=A, evil=EVIL)
    shop.describe(PAYMENT)
    with pytest.raises(pc.AccessDeniedError, match=r"publish the type evil\.X.*describe grant"):
        evil.publish(PAYMENT, name="evil.X")
    assert shop.wants(PAYMENT) == []


def test_to_say_what_is_known_changes_nothing_whoever_says_it(clients: Any) -> None:
    shop, evil = clients(shop=A, evil=EVIL)
    shop.describe(PAYMENT)

    def known() -> tuple[int, list[str]]:
        with shop.store.view() as view:
            return view.revision(), [each.hash for each in view.descriptions()]

    before = known()
    evil.describe(PAYMENT)
    assert known() == before
    assert evil.wants(PAYMENT) == []
    assert shop.publish(PAYMENT)
    assert shop.wants(PAYMENT) == ["a.Payment"]


def test_an_alias_is_a_name_too(clients: Any) -> None:
    shop, evil = clients(shop=A, evil=EVIL)
    taken = msgspec.structs.replace(described("evil.Taken"), aliases=("a.Payment",))
    shop.describe(PAYMENT)
    evil.describe(taken)
    with pytest.raises(pc.AccessDeniedError, match="describe grant"):
        evil.publish(taken)


def test_without_a_grant_a_new_type_is_not_published_and_the_error_names_the_grant(
    clients: Any,
) -> None:
    (till,) = clients(till="publish = ['a.*']")
    till.describe(PAYMENT)
    with pytest.raises(pc.AccessDeniedError, match=r"describe = \['a\.Payment'\]"):
        till.publish(PAYMENT)


def test_a_private_description_serves_the_subscription_that_brought_it(clients: Any) -> None:
    shop, desk, other = clients(shop=A, desk="subscribe = ['a.*']", other="subscribe = ['a.*']")
    shop.describe(PAYMENT)
    shop.publish(PAYMENT)
    mine = described("a.Payment", fields=("amount", "note"), version=7)
    desk.describe(mine)
    assert desk.wants(mine) == ["a.Payment"]
    with pytest.raises(ValueError, match="nor its description"):
        other.wants(mine)
    with shop.store.view() as view:
        assert [each.hash for each in view.descriptions()] == [PAYMENT.hash]


def test_what_attributes_hold_is_to_be_described_too(
    serve: Serve, tokens: Any, open_bus: OpenBus, eventually: Callable[..., None]
) -> None:
    held = TypeExpression("class", "lib.Money")
    order = Description("a.Order", attributes=(AttributeDescription("price", held),))
    money = described("lib.Money")
    known, secrets = tokens(
        shop=A,
        other="subscribe = ['a.*']",
        lib="describe = ['lib.*']",
    )
    url = serve(tokens=known).url
    shop, lib = (Client(open_bus(url, token=secrets[name])) for name in ("shop", "lib"))
    other, got = open_bus(url, token=secrets["other"]), list[Any]()
    other.subscribe(object, got.append, durable="all")
    shop.describe(order, money)
    shop.publish(order, payload=b'{"price": {"amount": 1}}')
    eventually(other.dead_letters)
    assert "the description of 'lib.Money'" in other.dead_letters()[0].reason
    lib.describe(money)
    shop.publish(order, payload=b'{"price": {"amount": 2}}')
    eventually(lambda: [each.price.amount for each in got] == [2])


def test_names_of_nobody_are_described_by_admins_only_and_published_by_grant(clients: Any) -> None:
    boss, till, evil = clients(boss="admin = true", till="publish = ['old.*']", evil=EVIL)
    old, changed = described("old.Order"), described("old.Order", "evil.Base", version=2)
    fake = described("evil.Fake", "old.Order")
    boss.describe(old)
    till.describe(old, changed)
    assert till.publish(old)
    with pytest.raises(pc.AccessDeniedError, match="describe"):
        till.publish(changed)
    evil.describe(fake)
    with pytest.raises(pc.AccessDeniedError, match=r"derives from old\.Order of nobody"):
        evil.publish(fake)


def test_a_step_of_a_transaction_describes_nothing_without_the_right(clients: Any) -> None:
    shop, evil = clients(shop=A, evil=EVIL)
    shop.store.write(lambda tx: tx.describe(PAYMENT)).result(5)
    evil.store.write(lambda tx: tx.describe(PAYMENT)).result(5)  # it is known
    with pytest.raises(pc.AccessDeniedError, match=r"describe the type a\.Payment"):
        evil.store.write(lambda tx: tx.describe(FORGED)).result(5)


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("shop.*", "shop.Order", True),
        ("*.Order", "shop.*", True),
        ("shop.*", "stock.*", False),
        ("*", "x", True),
        ("a*b*c", "abbc", True),
        ("a*b", "a*c", False),
    ],
)
def test_names_of_two_owners_are_told_when_the_file_is_read(
    tmp_path: Any, one: str, other: str, overlap: bool
) -> None:
    path = tmp_path / "tokens.toml"
    blocks = [
        f'[[token]]\nname = "{name}"\nsha256 = "{new_token()[1]}"\ndescribe = ["{grant}"]\n'
        for name, grant in (("one", one), ("other", other))
    ]
    path.write_text("".join(blocks))
    path.chmod(0o600)
    if overlap:
        with pytest.raises(pc.BadTokensError, match=r"both cover a name such as .*same-names"):
            load_tokens(path)
    else:
        load_tokens(path)


def test_topics_are_not_described(tmp_path: Any) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text(f'[[token]]\nname = "x"\nsha256 = "{new_token()[1]}"\ndescribe = ["/Chat/**"]')
    with pytest.raises(pc.BadTokensError, match="for all topics"):
        load_tokens(path)
