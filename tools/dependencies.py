"""What polycast is made and tested with: a bill of materials, and whether anything in it is unsafe.

python tools/dependencies.py sbom     # build/sbom.json, in CycloneDX, from requirements.lock
python tools/dependencies.py audit    # asks the vulnerability database of PyPI about the lock

Both are part of `make check`. The audit fails if there is a known vulnerability. Where the database
cannot be reached it says so in one line and does not fail; what it said is kept for a day.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
LOCK, BUILD = ROOT / "requirements.lock", ROOT / "build"
ACCEPTED = ROOT / "tools" / "accepted_vulnerabilities.txt"
TIMEOUT, LONGEST = 5, 45  # seconds: for an answer of the database, and for all of them
FRESH = 24 * 3600  # seconds for which an audit of the same lock counts
NO_ANSWER = re.compile(r"requests\.exceptions\.|ConnectionError|ConnectTimeout|ServiceError")


@dataclass(frozen=True)
class Locked:
    """A package as it is named in the lock."""

    name: str
    version: str
    marker: str = ""
    hashes: list[str] = field(default_factory=list)
    wanted_by: list[str] = field(default_factory=list)


def read_lock(text: str) -> list[Locked]:
    """The packages of a lock, with who wants them."""
    found: list[Locked] = []
    for line in text.splitlines():
        if named := re.match(r"([\w.-]+)==([^\s;\\]+)(?:\s*;\s*([^\\]*))?", line):
            found.append(Locked(named[1], named[2], (named[3] or "").strip()))
        elif hashed := re.match(r"\s+--hash=sha256:(\w+)", line):
            found[-1].hashes.append(hashed[1])
        elif wanted := re.match(r"\s+# (?:via|  )\s*([\w.-]+)", line):
            found[-1].wanted_by.append(wanted[1])
    return found


# -- the bill of materials -------------------------------------------------------------------------


def bill_of_materials(locked: list[Locked], version: str) -> str:
    """In CycloneDX; the same lock gives the same text."""
    from cyclonedx import model
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL

    ours = Component(
        name="polycast", version=version, type=ComponentType.LIBRARY, bom_ref="polycast"
    )
    parts: dict[str, list[Component]] = {"polycast": [ours]}  # some are there in two versions
    for each in locked:
        sha256 = model.HashAlgorithm.SHA_256
        place = model.ExternalReference(
            type=model.ExternalReferenceType.DISTRIBUTION,
            url=model.XsUri(f"https://pypi.org/simple/{each.name}/"),
            hashes=[model.HashType(alg=sha256, content=known) for known in each.hashes],
        )
        part = Component(
            name=each.name,
            version=each.version,
            type=ComponentType.LIBRARY,
            bom_ref=f"{each.name}=={each.version}",
            purl=PackageURL("pypi", None, each.name, each.version),
            external_references=[place],
            properties=[model.Property(name="marker", value=each.marker)] if each.marker else None,
        )
        parts.setdefault(each.name, []).append(part)
    bom = Bom(components=[part for name in parts for part in parts[name] if part is not ours])
    bom.metadata.component = ours
    for name, versions in parts.items():
        wanted = {each.name for each in locked if name in each.wanted_by}
        for part in versions:
            bom.register_dependency(part, [each for other in wanted for each in parts[other]])
    written: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    del written["serialNumber"], written["metadata"]["timestamp"]  # they differ each time
    return json.dumps(written, indent=1, sort_keys=True) + "\n"


def write_sbom() -> int:
    """Put it into build/."""
    import tomllib

    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    locked = read_lock(LOCK.read_text("utf-8"))
    BUILD.mkdir(exist_ok=True)
    (BUILD / "sbom.json").write_text(bill_of_materials(locked, version), encoding="utf-8")
    print(f"build/sbom.json: {len(locked)} packages")
    return 0


# -- the audit -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What an audit has found."""

    said: str
    is_bad: bool = False
    is_whole: bool = False  # the database was asked about everything


def accepted(text: str) -> dict[str, str]:
    """Identifiers of vulnerabilities that do not concern us, each with the reason."""
    lines = [line.partition("#")[::2] for line in text.splitlines() if line.strip()]
    found = {name.strip(): why.strip() for name, why in lines if name.strip()}
    unexplained = [name for name, why in found.items() if not why]
    if unexplained:
        raise SystemExit(f"{ACCEPTED.name} says of {', '.join(unexplained)} no reason")
    return found


def judged(output: str, errors: str) -> Verdict:
    """What pip-audit said, in one verdict; what cannot be understood is bad."""
    try:
        parts = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (errors.strip().splitlines() or ["it said nothing"])[-1]
        if NO_ANSWER.search(errors):
            return Verdict(f"dependency audit: the database cannot be reached ({last[:120]})")
        return Verdict(f"dependency audit: pip-audit failed: {last}", is_bad=True)
    bad = [
        f"{each['name']} {each['version']}: {flaw['id']}, mended in "
        f"{', '.join(flaw['fix_versions']) or 'no version yet'}"
        for each in parts
        for flaw in each.get("vulns", ())
    ]
    skipped = [each["name"] for each in parts if "skip_reason" in each]
    if bad:
        return Verdict("\n".join(["dependency audit: known vulnerabilities", *bad]), is_bad=True)
    if not parts or len(skipped) == len(parts):
        return Verdict("dependency audit: the database cannot be reached; it knows no package")
    if skipped:
        told = f"{len(parts) - len(skipped)} packages without known vulnerabilities"
        return Verdict(f"dependency audit: {told}; not known there: {', '.join(skipped)}")
    told = f"dependency audit: {len(parts)} packages, no known vulnerability"
    return Verdict(told, is_whole=True)


def ask_pip_audit(ignored: dict[str, str]) -> Verdict:
    """Run pip-audit."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(LOCK), "--disable-pip"]
    command += ["--format", "json", "--progress-spinner", "off", "--timeout", str(TIMEOUT)]
    command += [word for name in ignored for word in ("--ignore-vuln", name)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=LONGEST, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        told = f"the database did not answer within {LONGEST} s"
        return Verdict(f"dependency audit: {told}")
    return judged(done.stdout, done.stderr)


def audit(
    kept: Path, now: float, *, ask: Callable[[dict[str, str]], Verdict] = ask_pip_audit
) -> int:
    """Ask, unless that was done today, and tell."""
    text = ACCEPTED.read_text("utf-8")
    about = hashlib.sha256(LOCK.read_bytes() + text.encode()).hexdigest()
    if kept.exists():
        last = json.loads(kept.read_text("utf-8"))
        if last["about"] == about and 0 <= now - last["at"] < FRESH:
            print(last["said"], "(asked within the last day)")
            return 0
    verdict = ask(accepted(text))
    print(verdict.said)
    if verdict.is_whole:
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps({"about": about, "at": now, "said": verdict.said}), "utf-8")
    return 1 if verdict.is_bad else 0


def main() -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["sbom", "audit"])
    if parser.parse_args().what == "sbom":
        return write_sbom()
    return audit(BUILD / "audit.json", time.time())


if __name__ == "__main__":
    sys.exit(main())
