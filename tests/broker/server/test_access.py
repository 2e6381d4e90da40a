"""Rights and tokens: who may publish and receive what."""

from __future__ import annotations

import fnmatch
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polycast.broker.server.access import ANYBODY, OPEN, Grant, Rights
from polycast.broker.server.tokenfile import CODES, load_tokens, new_token, read_tokens
from polycast.errors import AccessDeniedError, BadGrantError, BadTokensError

ORDER = ("shop.Order", "shop.Document")
RUSH_ORDER = ("shop.rush.RushOrder", *ORDER)
NOW = 1_800_000_000.0  # in January 2027


def hash_of(secret: str) -> str:
    """What a file has of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def block(name: str = "till-7", secret: str = "s", more: str = "") -> str:
    """A token as it is written."""
    return f'[[token]]\nname = "{name}"\nsha256 = "{hash_of(secret)}"\n{more}\n'


Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the file of tokens, which only its owner can read."""
    written = 0

    def write(text: str) -> Path:
        nonlocal written
        written += 1
        path = tmp_path / "tokens.toml"
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        os.utime(path, (written, written))  # as if time had passed since it was written before
        return path

    return write


# -- grants ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grant", "names", "topic"),
    [
        ("*", ORDER, None),
        ("*", ORDER, "/Chat"),
        ("shop.Order", ORDER, None),
        ("shop.Order", ORDER, "/any/where"),
        ("shop.Order", RUSH_ORDER, None),
        ("shop.*", ("shop.a.b.C",), None),
        ("*.Order", ORDER, None),
        ("s*p.*r", ORDER, None),
        ("/Chat/**", ORDER, "/Chat"),
        ("/Chat/**", ORDER, "/Chat/a/b"),
        ("/Chat/*", ("anything",), "/Chat/a"),
        ("shop.Order @ /Chat/**", RUSH_ORDER, "/Chat/a"),
        ("* @ /Chat", ("x.Y",), "/Chat"),
        ("shop.Box[int]", ("shop.Box[int]",), None),
    ],
)
def test_a_grant_covers(grant: str, names: Sequence[str], topic: str | None) -> None:
    assert Grant(grant).covers(names, topic)


@pytest.mark.parametrize(
    ("grant", "names", "topic"),
    [
        ("shop.Order", ("shop.Orders",), None),
        ("shop.Order", ("my.shop.Order",), None),
        ("shop.rush.RushOrder", ORDER, None),
        ("shop.order", ORDER, None),
        ("shop.*", ("shopping.Cart",), None),
        ("shop.Order", ("shopxOrder",), None),
        ("shop.Order", ("shop.Order\n",), None),
        ("shop.Box[int]", ("shop.Boxi",), None),
        ("/Chat/**", ORDER, None),
        ("/**", ORDER, None),
        ("/Chat/*", ORDER, "/Chat/a/b"),
        ("/Chat", ORDER, "/Chat/a"),
        ("shop.Order @ /Chat/**", ORDER, None),
        ("shop.Order @ /Chat/**", ORDER, "/News"),
        ("shop.Order @ /Chat/**", ("shop.Note",), "/Chat"),
        ("*", (), None),
    ],
)
def test_a_grant_does_not_cover(grant: str, names: Sequence[str], topic: str | None) -> None:
    assert not Grant(grant).covers(names, topic)


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ("", 0, "it is empty"),
        ("  ", 0, "it is empty"),
        (" shop.Order", 0, "a space at its end"),
        ("shop.Order ", 10, "a space at its end"),
        ("shop.\x1bOrder", 5, "cannot be printed"),
        ("shop.**", 5, "'**' is for topics"),
        ("shop.Orde?", 9, "the only wildcard in a type is '*'"),
        ("Chat/Insomnia", 4, "a topic begins with '/'"),
        ("shop.Order@/Chat", 10, "joined by ' @ '"),
        ("shop.Order @ Chat", 13, "does not start with '/'"),
        ("shop.Order @ *", 13, "does not start with '/'"),
        ("shop.Order @ /a/b*", 16, "mixes a name with a wildcard"),
        ("/a//b", 3, "an empty level"),
        ("/Chat/", 6, "an empty level"),
        ("/Chat @ shop.Order", 5, "the type comes before the topic"),
    ],
)
def test_a_text_that_is_no_grant_is_refused_with_its_place(text: str, at: int, said: str) -> None:
    with pytest.raises(BadGrantError) as caught:
        Grant(text)
    assert (caught.value.grant, caught.value.at) == (text, at)
    assert said in str(caught.value)
    assert "'shop.Note @ /Chat/**'" in str(caught.value)


def test_many_wildcards_do_not_take_for_ever() -> None:
    assert not Grant("*a" * 30 + "*b").covers(["a" * 5_000], None)


# -- rights ----------------------------------------------------------------------------------------


def test_rights_to_publish_are_not_rights_to_receive() -> None:
    rights = Rights.of(publish=["shop.Order"])
    assert rights.may_publish(ORDER, None)
    assert not rights.may_receive(ORDER, None)
    assert not rights.may_subscribe


def test_a_subscription_to_a_supertype_of_what_is_granted_is_allowed() -> None:
    rights = Rights.of(subscribe=["shop.rush.RushOrder"])
    assert rights.may_subscribe
    assert not rights.may_receive(ORDER, None)
    assert rights.may_receive(RUSH_ORDER, None)


def test_no_rights_allow_nothing() -> None:
    rights = Rights()
    assert not rights.may_publish(ORDER, "/Chat")
    assert not rights.may_receive(ORDER, "/Chat")


@pytest.mark.parametrize("rights", [OPEN, Rights(admin=True)])
def test_an_admin_may_do_everything(rights: Rights) -> None:
    assert rights.admin
    assert rights.may_publish(ORDER, None)
    assert rights.may_receive((), "/Chat")
    assert rights.may_subscribe


def test_a_right_to_everything_is_not_that_of_an_admin() -> None:
    assert not Rights.of(publish=["*"], subscribe=["*"]).admin


def test_equal_grants_are_equal_rights() -> None:
    one, other = (Rights.of(publish=["shop.*"]) for _ in range(2))
    assert one.may_publish(ORDER, None)
    assert one == other
    assert hash(one) == hash(other)


def test_names_may_be_any_sequence() -> None:
    assert Rights.of(publish=["shop.Order"]).may_publish(list(RUSH_ORDER), None)


# -- the fast verdict and the slow one -------------------------------------------------------------


def slowly(grants: Sequence[str], names: Sequence[str], topic: str | None) -> bool:
    """A grant is read anew for every name, as the page says it."""
    return any(_slowly_one(grant, names, topic) for grant in grants)


def _slowly_one(grant: str, names: Sequence[str], topic: str | None) -> bool:
    if grant.startswith("/"):
        return _on(grant, topic)
    if " @ " in grant:
        of_type, of_topic = grant.split(" @ ")
        return _on(of_topic, topic) and _slowly_one(of_type, names, None)
    return any(fnmatch.fnmatchcase(name, grant) for name in names)


def _on(pattern: str, topic: str | None) -> bool:
    if topic is None:
        return False
    split = [[level for level in each.split("/") if level] for each in (pattern, topic)]
    return _levels_on(split[0] or ["**"], split[1])


def _levels_on(pattern: list[str], topic: list[str]) -> bool:
    if not pattern:
        return not topic
    if pattern[0] == "**":
        return any(_levels_on(pattern[1:], topic[n:]) for n in range(len(topic) + 1))
    return bool(topic) and pattern[0] in ("*", topic[0]) and _levels_on(pattern[1:], topic[1:])


LETTERS = "ab."
NAMES = st.text(LETTERS, min_size=1, max_size=5)
TYPE_PATTERNS = st.text(LETTERS + "*", min_size=1, max_size=5).filter(lambda text: "**" not in text)
TOPICS = st.lists(st.sampled_from("ab"), max_size=3).map(lambda levels: "/" + "/".join(levels))
# `**` after `**` says nothing new, and TopicPattern alone decides what it means for the root.
TOPIC_PATTERNS = (
    st.lists(st.sampled_from(["a", "b", "*", "**"]), max_size=3)
    .map(lambda levels: "/" + "/".join(levels))
    .filter(lambda text: "/**/**" not in text)
)
GRANTS = st.one_of(
    TYPE_PATTERNS, TOPIC_PATTERNS, st.tuples(TYPE_PATTERNS, TOPIC_PATTERNS).map(" @ ".join)
)
EVENTS = st.tuples(st.lists(NAMES, max_size=3).map(tuple), st.none() | TOPICS)


@given(st.lists(GRANTS, max_size=4), st.lists(GRANTS, max_size=4), st.lists(EVENTS, max_size=8))
def test_the_remembered_verdict_is_the_obvious_one(
    publish: list[str], subscribe: list[str], events: list[tuple[tuple[str, ...], str | None]]
) -> None:
    rights = Rights.of(publish=publish, subscribe=subscribe)
    for names, topic in [*events, *events]:  # the second time from memory
        assert rights.may_publish(names, topic) == slowly(publish, names, topic)
        assert rights.may_receive(names, topic) == slowly(subscribe, names, topic)


@given(st.lists(GRANTS, max_size=4), EVENTS, st.lists(NAMES, max_size=2))
def test_a_right_on_a_type_is_one_on_every_subtype(
    grants: list[str], event: tuple[tuple[str, ...], str | None], below: list[str]
) -> None:
    rights, (names, topic) = Rights.of(publish=grants), event
    if rights.may_publish(names, topic):
        assert rights.may_publish((*below, *names), topic)


@given(st.lists(GRANTS, min_size=1, max_size=4), EVENTS)
def test_what_may_be_received_may_be_subscribed_to(
    grants: list[str], event: tuple[tuple[str, ...], str | None]
) -> None:
    rights = Rights.of(subscribe=grants)
    assert rights.may_subscribe >= rights.may_receive(*event)


# -- tokens ----------------------------------------------------------------------------------------


def test_a_secret_finds_its_token_and_rights(write: Write) -> None:
    text = block("a", "one", 'publish = ["shop.Order"]') + block("b", "two", "admin = true")
    tokens = load_tokens(write(text))
    found = tokens.find("one", now=NOW)
    assert found is not None
    assert (found.name, found.expires, len(tokens)) == ("a", None, 2)
    assert found.rights == Rights.of(publish=["shop.Order"])
    other = tokens.find("two", now=NOW)
    assert other is not None
    assert other.rights.admin


@pytest.mark.parametrize("secret", [None, "", "x", "till-7", hash_of("s"), "\ud800", "s" * 10_000])
def test_another_secret_finds_nobody(write: Write, secret: str | None) -> None:
    assert load_tokens(write(block())).find(secret, now=NOW) is None


def test_a_token_is_good_until_it_expires(write: Write) -> None:
    tokens = load_tokens(write(block(more="expires = 2027-01-15T09:00:00+01:00")))
    found = tokens.find("s", now=NOW - 1)
    assert found is not None
    assert found.expires == NOW
    assert tokens.find("s", now=NOW) is None
    assert tokens.refresh(found, now=NOW) is None


def test_a_new_token_is_a_secret_and_its_hash(write: Write) -> None:
    secret, digest = new_token()
    assert digest == hash_of(secret)
    assert len(secret) >= 43
    assert new_token()[0] != secret


def test_nothing_shows_a_secret_or_its_hash(write: Write) -> None:
    tokens = load_tokens(write(block(secret="hush")))
    found = tokens.find("hush", now=NOW)
    shown = f"{found!r} {tokens!r} {read_tokens(tokens.path)!r}"
    assert "hush" not in shown
    assert hash_of("hush") not in shown
    assert repr(bytes.fromhex(hash_of("hush"))) not in shown


# -- refusals --------------------------------------------------------------------------------------


def test_a_refusal_says_who_may_do_what_instead(write: Write) -> None:
    found = load_tokens(write(block(more='publish = ["shop.Note"]'))).find("s", now=NOW)
    assert found is not None
    found.check_publish(["shop.Note"], None)
    with pytest.raises(AccessDeniedError) as caught:
        found.check_publish(ORDER, "/Chat")
    error = caught.value
    assert (error.action, error.what, error.token) == ("publish", "shop.Order on /Chat", "till-7")
    assert error.granted == ("shop.Note",)
    assert "the token 'till-7' is granted 'shop.Note' for this" in str(error)
    with pytest.raises(AccessDeniedError, match=r"subscribe to shop\.Order was refused"):
        found.check_subscribe(ORDER)
    with pytest.raises(
        AccessDeniedError, match=r"truncate the log was refused.*has no admin = true"
    ):
        found.check_admin("truncate", "the log")


def test_a_refusal_of_nobody_says_that_a_token_is_missing() -> None:
    error = AccessDeniedError("connect to", "the broker", token=None)
    assert "no token was given" in str(error)


def test_anybody_is_let_do_everything_without_tokens() -> None:
    ANYBODY.check_publish(ORDER, None)
    ANYBODY.check_subscribe(ORDER)
    ANYBODY.check_admin("truncate", "the log")


# -- files that are wrong --------------------------------------------------------------------------

WRONG = [
    ("bad-toml", "[[token]]\nname = \n", "at line 2"),
    ("bad-toml", "a = " + "[" * 10_000, "not TOML"),
    ("bad-toml", "a = " + "9" * 10_000, "not TOML"),
    ("no-tokens", "", "there is no [[token]]"),
    ("no-tokens", "# nothing yet\n", "there is no [[token]]"),
    ("bad-value", '[token]\nname = "x"\n', "write [[token]] above each"),
    ("bad-value", 'token = ["x"]', "write [[token]] above each"),
    ("unknown-key", "[[tokens]]\n", "did you mean [[token]]?"),
    ("unknown-key", block(more="publsih = []"), "did you mean publish?"),
    ("unknown-key", block(more='secret = "s"'), "only the sha256 of each"),
    ("unknown-key", block(more="colour = 1"), "no key 'colour'; accepted: name, sha256, publish"),
    ("missing-key", '[[token]]\nname = "x"\n', "it has no sha256"),
    ("missing-key", f'[[token]]\nsha256 = "{hash_of("s")}"\n', "it has no name"),
    ("bad-name", block(name=" "), "its name is empty"),
    ("bad-name", block(name="x" * 101), "its name is 101 characters long"),
    ("bad-name", block(name="a\\nb"), "can be printed"),
    ("bad-name", block().replace('"till-7"', "7"), "its name is a number"),
    ("bad-hash", '[[token]]\nname = "x"\nsha256 = "9f86d0"\n', "6 characters that are no hash"),
    ("bad-hash", '[[token]]\nname = "x"\nsha256 = 9\n', "sha256 is a number"),
    ("bad-hash", block(secret=""), "that of an empty secret"),
    ("bad-grant", block(more='subscribe = ["*", "/a//b"]'), "subscribe, number 2: '/a//b'"),
    ("bad-value", block(more='publish = "shop.Order"'), "publish is not a list of strings"),
    ("bad-value", block(more="publish = [1]"), "publish is not a list of strings"),
    ("bad-value", block(more='admin = "yes"'), "admin is a string; accepted: true or false"),
    ("bad-time", block(more="expires = 2027-01-01T00:00:00"), "has no time zone"),
    ("bad-time", block(more="expires = 2027-01-01"), "is a day"),
    ("bad-time", block(more='expires = "tomorrow"'), "expires is a string"),
    ("same-name", block("a", "1") + block("a", "2"), "token 1, line 1 has that name, too"),
    ("same-hash", block("a") + block("b"), "token 1, line 1 (a) has that sha256, too"),
    (
        "same-names",
        block("a", "1", "describe = ['x.*']") + block("b", "2", "describe = ['*.y']"),
        "both cover a name such as 'x..y', for the owners 'a' and 'b'",
    ),
    ("same-owner", block() + 2 * "[[owner]]\nname = 'till-7'\n", "owner 2 (till-7): it is there"),
    ("unknown-key", "[[owners]]\n", "did you mean [[owner]]?"),
    ("unknown-key", block() + "[[owner]]\nname = 'x'\ntype = 1\n", "did you mean types?"),
    ("missing-key", block() + "[[owner]]\ntypes = 1\n", "owner 1: it has no name"),
    ("bad-value", block() + "[[owner]]\nname = 'till-7'\ndurable = 0\n", "durable is 0; accepted"),
    ("bad-value", block() + "[[owner]]\nname = 'x'\ntypes = true\n", "types is true or false"),
    ("bad-value", block() + "[owner]\nname = 'x'\n", "write [[owner]] above each"),
]


@pytest.mark.parametrize(("code", "text", "said"), WRONG)
def test_a_file_that_is_wrong_is_refused_with_a_reason(
    write: Write, code: str, text: str, said: str
) -> None:
    path = write(text)
    with pytest.raises(BadTokensError) as caught:
        load_tokens(path)
    assert [problem.code for problem in caught.value.problems] == [code]
    assert caught.value.path == str(path)
    assert said in str(caught.value)


def test_every_kind_of_error_is_shown_to_be_found() -> None:
    errors = {code for code, severity in CODES.items() if severity == "error"}
    assert errors == {code for code, _, _ in WRONG} | {"unreadable"}


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTokensError, match="No such file"):
        load_tokens(tmp_path / "tokens.toml")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokens.toml").write_bytes(b"ab\xff")
    with pytest.raises(BadTokensError, match="the byte 0xff at 2"):
        load_tokens(tmp_path / "tokens.toml")


def test_all_that_is_wrong_is_said_at_once_with_its_place(write: Write) -> None:
    text = block("good", "1") + block("b", "2", "admin = 1") + block("c", "3", 'publish = ["a@b"]')
    contents = read_tokens(str(write(text)))
    assert [token.name for token in contents.tokens] == ["good"]
    assert [each.where.partition(", ")[2] for each in contents.errors] == [
        "token 2, line 5 (b)",
        "token 3, line 9 (c)",
    ]


def test_a_secret_in_place_of_its_hash_is_not_shown(write: Write) -> None:
    secret, _ = new_token()
    with pytest.raises(BadTokensError) as caught:
        load_tokens(write(f'[[token]]\nname = "x"\nsha256 = "{secret}"\nsecret = "{secret}"'))
    assert secret not in str(caught.value)


def test_tokens_in_one_line_have_a_number_but_no_line(write: Write) -> None:
    contents = read_tokens(str(write('token = [{name = "x"}]')))
    assert contents.errors[0].where.endswith(", token 1 (x)")


def test_capital_digits_and_a_byte_order_mark_are_accepted(write: Write) -> None:
    text = block().replace(hash_of("s"), hash_of("s").upper())
    assert load_tokens(write("\ufeff" + text)).find("s", now=NOW) is not None


# -- doubts ----------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="files have no modes here")
@pytest.mark.parametrize(("mode", "doubted"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_file_that_others_can_read_is_doubted_but_used(
    write: Write, mode: int, doubted: bool
) -> None:
    path = write(block(more='publish = ["*"]'))
    path.chmod(mode)
    found = load_tokens(path).findings(now=NOW)
    assert [each.code for each in found] == ["readable-by-others"] * doubted
    assert all(f"{mode:04o}" in str(each) for each in found)


def test_tokens_without_use_are_doubted(write: Write) -> None:
    old = 'publish = ["*"]\nexpires = 2001-01-01T00:00:00Z'
    tokens = load_tokens(write(block("idle", "1") + block("old", "2", old)))
    assert [(each.code, each.where) for each in tokens.findings(now=NOW)] == [
        ("no-rights", "token 'idle'"),
        ("expired", "token 'old'"),
    ]


# -- reading again ---------------------------------------------------------------------------------


def test_a_file_that_is_as_it_was_is_not_read_again(write: Write) -> None:
    tokens = load_tokens(write(block()))
    assert tokens.reload_if_changed() is None
    assert tokens.generation == 1


def test_a_file_that_was_written_again_takes_effect(write: Write) -> None:
    tokens = load_tokens(write(block("a", "one")))
    write(block("b", "two"))
    assert tokens.reload_if_changed() is None
    assert tokens.generation == 2
    assert tokens.find("one", now=NOW) is None
    assert tokens.find("two", now=NOW) is not None


def test_a_file_that_is_wrong_now_leaves_the_old_tokens_and_is_reported_once(write: Write) -> None:
    tokens = load_tokens(write(block()))
    write(block(more="admin = 1"))
    error = tokens.reload_if_changed()
    assert isinstance(error, BadTokensError)
    assert "admin is a number" in str(error)
    assert tokens.reload_if_changed() is None
    assert tokens.generation == 1
    assert tokens.find("s", now=NOW) is not None


@pytest.mark.parametrize("text", ["", None])
def test_a_file_that_is_empty_or_gone_locks_nobody_out(write: Write, text: str | None) -> None:
    path = write(block())
    tokens = load_tokens(path)
    if text is None:
        path.unlink()
    else:
        write(text)
    assert isinstance(tokens.reload_if_changed(), BadTokensError)
    assert tokens.find("s", now=NOW) is not None
    write(block("other", "o"))
    assert tokens.reload_if_changed() is None
    assert tokens.find("s", now=NOW) is None


def test_who_is_connected_has_the_rights_of_the_new_file(write: Write) -> None:
    tokens = load_tokens(write(block(more='publish = ["*"]')))
    found = tokens.find("s", now=NOW)
    assert found is not None
    write(block("renamed", more='publish = ["shop.Note"]'))
    tokens.reload_if_changed()
    again = tokens.refresh(found, now=NOW)
    assert again is not None
    assert (again.name, again.rights) == ("renamed", Rights.of(publish=["shop.Note"]))
    write(block("till-7", "another secret"))
    tokens.reload_if_changed()
    assert tokens.refresh(again, now=NOW) is None
