"""The bill of materials is complete and always the same; an audit never passes over a flaw."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path

import dependencies
import pytest
from dependencies import LOCK, Locked, accepted, bill_of_materials, judged, read_lock

LINES = """\
anyio==4.16.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via
    #   starlette
    #   uvicorn
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:cc
    # via click
starlette==1.0 ; python_full_version < '3.12'
    # via polycast (pyproject.toml)
starlette==1.1 ; python_full_version >= '3.12'
    # via polycast (pyproject.toml)
"""


def test_a_lock_is_read_with_markers_hashes_and_who_wants_what() -> None:
    assert read_lock(LINES) == [
        Locked("anyio", "4.16.0", "", ["aa", "bb"], ["starlette", "uvicorn"]),
        Locked("colorama", "0.4.6", "sys_platform == 'win32'", ["cc"], ["click"]),
        Locked("starlette", "1.0", "python_full_version < '3.12'", [], ["polycast"]),
        Locked("starlette", "1.1", "python_full_version >= '3.12'", [], ["polycast"]),
    ]


def test_the_bill_names_every_package_of_the_lock() -> None:
    text = LOCK.read_text(encoding="utf-8")
    bill = json.loads(bill_of_materials(read_lock(text), "1"))
    named = {f"{part['name']}=={part['version']}" for part in bill["components"]}
    assert named == set(re.findall(r"^[\w.-]+==[^\s;\\]+", text, re.M))
    assert all(part["externalReferences"][0]["hashes"] for part in bill["components"])
    assert bill["bomFormat"] == "CycloneDX"


def test_the_bill_says_who_needs_what() -> None:
    bill = json.loads(bill_of_materials(read_lock(LINES), "1"))
    needs = {part["ref"]: part.get("dependsOn", []) for part in bill["dependencies"]}
    assert needs["polycast"] == ["starlette==1.0", "starlette==1.1"]
    assert needs["starlette==1.0"] == needs["starlette==1.1"] == ["anyio==4.16.0"]


def test_the_same_lock_gives_the_same_bill() -> None:
    locked = read_lock(LOCK.read_text(encoding="utf-8"))
    assert bill_of_materials(locked, "1") == bill_of_materials(locked, "1")


def found(*parts: dict[str, object]) -> str:
    return json.dumps({"dependencies": parts, "fixes": []})


SOUND: dict[str, object] = {"name": "anyio", "version": "4.16.0", "vulns": []}
FLAW = {"id": "PYSEC-1", "fix_versions": ["4.17"]}
FLAWED: dict[str, object] = {"name": "h11", "version": "0.1", "vulns": [FLAW]}
UNKNOWN: dict[str, object] = {"name": "rich", "skip_reason": "Dependency not found on PyPI"}


def test_a_known_vulnerability_is_bad_whatever_else_is_said() -> None:
    verdict = judged(found(SOUND, FLAWED, UNKNOWN), "Found 1 known vulnerability")
    assert verdict.is_bad
    assert "h11 0.1: PYSEC-1, mended in 4.17" in verdict.said


def test_nothing_known_is_good() -> None:
    verdict = judged(found(SOUND), "")
    assert not verdict.is_bad
    assert verdict.is_whole


@pytest.mark.parametrize(
    ("output", "errors"),
    [
        ("", "Traceback\nrequests.exceptions.ProxyError: Unable to connect to proxy"),
        ("", "ERROR:pip_audit._cli:ConnectionError: Could not connect to the feed"),
        (found(UNKNOWN), ""),
        (found(), ""),
    ],
)
def test_a_database_that_cannot_be_reached_is_told_in_one_line(output: str, errors: str) -> None:
    verdict = judged(output, errors)
    assert not verdict.is_bad
    assert not verdict.is_whole
    assert "the database cannot be reached" in verdict.said
    assert "\n" not in verdict.said


@pytest.mark.parametrize("output", ["", "no JSON", "[]", '{"other": 1}'])
def test_what_fails_for_another_reason_is_bad(output: str) -> None:
    assert judged(output, "SyntaxError: invalid requirement").is_bad


def test_packages_that_the_database_does_not_know_are_named() -> None:
    verdict = judged(found(SOUND, UNKNOWN), "")
    assert "not known there: rich" in verdict.said
    assert not verdict.is_whole


def test_an_audit_counts_for_a_day_and_one_lock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def ask(ignored: dict[str, str]) -> dependencies.Verdict:
        asked.append(ignored)
        return dependencies.Verdict("sound", is_whole=True)

    kept = tmp_path / "audit.json"
    for now in (1.0, 2.0, 1.0 + dependencies.FRESH):
        assert dependencies.audit(kept, now, ask=ask) == 0
    assert len(asked) == 2
    assert "asked within the last day" in capsys.readouterr().out


def test_what_is_accepted_has_a_reason() -> None:
    assert accepted("# about this file\nPYSEC-1  # only on Windows\n") == {
        "PYSEC-1": "only on Windows"
    }
    with pytest.raises(SystemExit, match="PYSEC-2"):
        accepted("PYSEC-2\n")


# -- licences --------------------------------------------------------------------------------------

PERMISSIVE = re.compile(
    r"\b(MIT|BSD|0BSD|Apache|PSF|Python Software Foundation|ISC|Zlib|CC0|MPL|Mozilla|any-OSI|HPND"
    r"|Unlicense)\b"
)
OTHER = re.compile(r"\b(A|L)?GPL|GNU|SSPL|BUSL|Commons Clause|Proprietary|Commercial", re.I)


def licence_of(about: metadata.PackageMetadata) -> str:
    """What a package says of its licence, without the text of it."""
    classifiers = [each for each in about.get_all("Classifier") or [] if "License ::" in each]
    short = (about.get("License") or "").strip().splitlines()[:1]
    return " | ".join([about.get("License-Expression") or "", *short, *classifiers])


def is_permissive(licence: str) -> bool:
    """Whether what is used may be used by anybody for anything."""
    return bool(PERMISSIVE.search(licence)) and not OTHER.search(licence)


def test_what_is_in_the_lock_is_under_permissive_licences() -> None:
    found, looked_at = {}, 0
    for each in read_lock(LOCK.read_text(encoding="utf-8")):
        try:
            licence = licence_of(metadata.metadata(each.name))
        except metadata.PackageNotFoundError:  # it is for another platform
            continue
        looked_at += 1
        if not is_permissive(licence):
            found[each.name] = licence
    assert looked_at > 50
    assert found == {}


@pytest.mark.parametrize("licence", ["GPL-3.0-only", "LGPLv2+", "AGPL-3.0", "Proprietary", ""])
def test_another_licence_is_found(licence: str) -> None:
    assert not is_permissive(licence)
