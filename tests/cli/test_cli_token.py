"""`polycast token new` and `polycast token check`."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import Any

import pytest

from polycast.broker.server.tokenfile import load_tokens
from polycast.testing import ManualClock

GRANTED = ["--publish", "shop.Order", "--publish", "shop.Note @ /Chat/**", "--subscribe", "*"]


def written(folder: Path, text: str) -> Path:
    """A file of tokens that only its owner can read."""
    path = folder / "tokens.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def token(name: str, more: str = 'publish = ["*"]') -> str:
    """A token as it is written."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f'[[token]]\nname = "{name}"\nsha256 = "{digest}"\n{more}\n'


# -- new -------------------------------------------------------------------------------------------


def test_the_secret_that_is_printed_opens_the_token_that_is_printed(
    run: Any, tmp_path: Path
) -> None:
    data = run("token", "new", "--name", "till-7", *GRANTED, "--json").data
    path = written(tmp_path, data["toml"])
    found = load_tokens(path).find(data["secret"], now=0.0)
    assert found is not None
    assert found.name == data["name"] == "till-7"
    assert [each.text for each in found.rights.publish] == ["shop.Order", "shop.Note @ /Chat/**"]
    assert [each.text for each in found.rights.subscribe] == ["*"]
    assert not found.rights.admin


def test_a_person_reads_the_secret_and_what_to_paste(run: Any, tmp_path: Path) -> None:
    ran = run("token", "new", "--name", "till-7", *GRANTED)
    assert (ran.status, ran.err) == (0, "")
    said, _, toml = ran.out.partition("[[token]]")
    secret = said.splitlines()[2].strip()
    assert "this once" in said
    tokens = load_tokens(written(tmp_path, f"[[token]]{toml}"))
    assert tokens.find(secret, now=0.0) is not None


def test_the_secret_is_not_in_what_is_pasted(run: Any) -> None:
    data = run("token", "new", "--json").data
    assert data["secret"] not in data["toml"]
    assert tomllib.loads(data["toml"])["token"][0]["sha256"] == data["sha256"]


def test_a_token_without_a_name_gets_one(run: Any) -> None:
    names = {run("token", "new", "--admin", "--json").data["name"] for _ in range(2)}
    assert len(names) == 2


def test_an_admin_is_one_in_the_file(run: Any) -> None:
    data = run("token", "new", "--admin", "--json").data
    assert tomllib.loads(data["toml"])["token"][0]["admin"] is True


def test_an_owner_is_one_in_the_file(run: Any, tmp_path: Path) -> None:
    words = ("token", "new", "--name", "till-8", *GRANTED)
    data = run(*words, "--owner", "the tills", "--json").data
    found = load_tokens(written(tmp_path, data["toml"])).find(data["secret"], now=0.0)
    assert found is not None
    assert found.owner == "the tills"
    assert run("token", "check", tmp_path / "tokens.toml").out.count("the tills") == 1
    assert run(*words, "--owner", "").status == 2


def test_names_that_it_may_describe_are_in_the_file(run: Any, tmp_path: Path) -> None:
    words = ("token", "new", "--name", "till-8", *GRANTED, "--describe", "shop.*")
    data = run(*words, "--json").data
    found = load_tokens(written(tmp_path, data["toml"])).find(data["secret"], now=0.0)
    assert found is not None
    assert found.rights.may_describe(("shop.Order",))
    assert run("token", "new", "--describe", "/Chat/**").status == 2


def test_a_token_that_may_do_nothing_is_remarked_on(run: Any) -> None:
    ran = run("token", "new")
    assert ran.status == 0
    assert "It may do nothing yet" in ran.err


@pytest.mark.parametrize("name", ['a "b" \\ c', "Käse 🧀", "x" * 100])
def test_an_unusual_name_is_written_so_that_it_is_read_again(
    run: Any, tmp_path: Path, name: str
) -> None:
    data = run("token", "new", "--name", name, "--admin", "--json").data
    found = load_tokens(written(tmp_path, data["toml"])).find(data["secret"], now=0.0)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--name", ""], "the name of a token is empty"),
        (["--name", "a\nb"], "can be printed"),
        (["--name", "x" * 101], "101 characters long"),
        (["--publish", "shop.**"], "'shop.**' is not a grant"),
        (["--subscribe", "/a//b"], "an empty level (at character 4)"),
    ],
)
def test_what_cannot_be_a_token_is_a_usage_error(run: Any, words: list[str], said: str) -> None:
    ran = run("token", "new", *words)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err
    assert run("token", "new", "--json", *words).data["error"]["code"] == "usage"


# -- check -----------------------------------------------------------------------------------------

GOOD = token(
    "till-7", 'publish = ["shop.Order", "/Chat/**"]\nexpires = 2030-01-01T00:00:00Z'
) + token("boss", "admin = true")


def test_tokens_and_their_rights_are_listed(run: Any, tmp_path: Path) -> None:
    ran = run("token", "check", written(tmp_path, GOOD), clock=ManualClock())
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith(
        "till-7\n  publish    shop.Order, /Chat/**\n  subscribe  -\n  expires"
    )
    assert "\n\nboss\n  admin      may do everything, also to others\n\n" in ran.out
    assert ran.out.endswith("2 tokens, 0 errors, 0 warnings\n")


def test_a_program_reads_the_same(run: Any, tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    data = run("token", "check", path, "--json", clock=ManualClock()).data
    assert (data["file"], data["ok"], data["findings"]) == (str(path), True, [])
    assert data["tokens"][0] == {
        "name": "till-7",
        "publish": ["shop.Order", "/Chat/**"],
        "subscribe": [],
        "describe": [],
        "admin": False,
        "owner": "till-7",
        "expires": 1893456000.0,
        "valid": True,
    }


def test_owners_and_what_they_may_have_are_listed(run: Any, tmp_path: Path) -> None:
    text = token("till-7", "publish = ['*']\ndescribe = ['shop.*']\nowner = 'shop'")
    path = written(tmp_path, f"{text}[[owner]]\nname = 'shop'\ntypes = 9\n")
    ran = run("token", "check", path)
    assert (ran.status, ran.err) == (0, "")
    assert "  describe   shop.*\n" in ran.out
    assert "owner shop\n  connections    1000\n" in ran.out
    assert "  types          9\n  bytes_per_day  -\n" in ran.out
    [owner] = run("token", "check", path, "--json").data["owners"]
    assert (owner["name"], owner["types"], owner["bytes_per_day"]) == ("shop", 9, None)


def test_a_quota_of_nobody_is_doubted(run: Any, tmp_path: Path) -> None:
    path = written(tmp_path, token("till-7", "publish = ['*']") + "[[owner]]\nname = 'shop'\n")
    ran = run("token", "check", path)
    assert ran.status == 3
    assert "owner 1 (shop): no token has this owner [no-such-owner]" in ran.out


def test_hashes_are_not_shown(run: Any, tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    digest = hashlib.sha256(b"till-7").hexdigest()
    for more in ([], ["--json"]):
        assert digest[:8] not in run("token", "check", path, *more).out


def test_warnings_are_an_exit_status(run: Any, tmp_path: Path) -> None:
    path = written(tmp_path, token("old", 'publish = ["*"]\nexpires = 1960-01-01T00:00:00Z'))
    ran = run("token", "check", path)
    assert ran.status == 3
    assert "warning: token 'old': it has expired and lets nobody in [expired]" in ran.out
    data = run("token", "check", path, "--json").data
    assert (data["ok"], data["tokens"][0]["valid"]) == (True, False)


def test_errors_are_an_exit_status_and_the_rest_is_listed(run: Any, tmp_path: Path) -> None:
    path = written(tmp_path, token("good") + token("bad", "admn = true"))
    ran = run("token", "check", path)
    assert ran.status == 1
    assert f"error: {path}, token 2, line 5 (bad): there is no key 'admn'" in ran.out
    assert "did you mean admin?" in ran.out
    assert ran.out.endswith("1 token, 1 error, 0 warnings\n")
    data = run("token", "check", path, "--json").data
    assert data["ok"] is False
    assert [each["name"] for each in data["tokens"]] == ["good"]
    assert [(each["severity"], each["code"]) for each in data["findings"]] == [
        ("error", "unknown-key")
    ]


def test_a_file_that_is_not_there_is_an_error(run: Any, tmp_path: Path) -> None:
    ran = run("token", "check", tmp_path / "gone.toml", "--json")
    assert ran.status == 1
    assert ran.data["findings"][0]["code"] == "unreadable"
