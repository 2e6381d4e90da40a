"""Runs the quick tests on every Python that polycast supports and that is here: `make proof`.

python tools/pythons.py                      # python3.11, python3.12 and python3.13
python tools/pythons.py /opt/py/bin/python3  # these

Each has an environment of its own in build/proof, from requirements.lock, with polycast installed
as users do. An interpreter that is missing is named, and is no failure.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK, HOMES = ROOT / "requirements.lock", ROOT / "build" / "proof"
SUPPORTED = ("python3.11", "python3.12", "python3.13")
TESTS = (
    *("typesystem", "events", "formats", "filters", "languages", "matching", "contexts"),
    *("stores", "routing", "delivery", "broker", "bus", "names", "collections_", "stored"),
)
LEFT_OUT = "tests/filters/spark"  # what Spark does is the same on each
QUIETLY = ("--quiet", "--disable-pip-version-check")


def version_of(interpreter: str) -> str | None:
    """The version of an interpreter; None if it does not run or cannot make environments.

    Each is run, because a name on the PATH may be a launcher for a version that is not there.
    """
    asking = "import sys, venv, ensurepip; print('%d.%d.%d' % sys.version_info[:3])"
    try:
        done = subprocess.run(
            [interpreter, "-c", asking], capture_output=True, text=True, check=False, timeout=60
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def found(names: list[str]) -> tuple[dict[str, str], list[str]]:
    """The interpreters that are here, with their versions, and those that are not."""
    here, missing = {}, []
    for name in names:
        version = version_of(name)
        if version is None:
            missing.append(name)
        else:
            here[name] = version
    return here, missing


def environment(interpreter: str, version: str) -> Path:
    """Its environment; made anew when the lock has changed."""
    home = HOMES / version
    ready, about = home / ".ready", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    python = home / "bin" / "python"
    if not ready.exists() or ready.read_text("utf-8") != about:
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([interpreter, "-m", "venv", str(home)], check=True)
        install = [str(python), "-m", "pip", "install", *QUIETLY]
        subprocess.run([*install, "--require-hashes", "-r", str(LOCK)], check=True)
        ready.write_text(about, "utf-8")
    for left in (ROOT / "build").glob("lib*"):  # of a build before, with modules that may have gone
        shutil.rmtree(left)
    install = [str(python), "-m", "pip", "install", *QUIETLY, "--force-reinstall"]
    subprocess.run([*install, "--no-deps", "--no-build-isolation", str(ROOT)], check=True)
    return python


def passes(python: Path) -> bool:
    """Whether the quick tests pass with it."""
    folders = [f"tests/{name}" for name in TESTS]
    command = [str(python), "-m", "pytest", "-q", "-m", "not slow", f"--ignore={LEFT_OUT}"]
    return subprocess.run([*command, *folders], cwd=ROOT, check=False).returncode == 0


def main(names: list[str]) -> int:
    """Try each, and say how it went."""
    here, missing = found(names or list(SUPPORTED))
    for name in missing:
        print(f"{name}: not here, not tried")
    verdicts = {}
    for name, version in here.items():
        print(f"{name}: trying {version}", flush=True)
        verdicts[version] = passes(environment(name, version))
    for version, fine in verdicts.items():
        print(f"Python {version}: {'all tests pass' if fine else 'TESTS FAILED'}")
    if not verdicts:
        print("no supported Python was found")
    return 0 if verdicts and all(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
