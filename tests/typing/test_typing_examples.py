"""mypy and pyright, both strict, agree with what the two example files claim.

`accepted.py` has no diagnostics. In `rejected.py` every statement with a trailing `# rejected`
is an error for both, and nothing else is.
"""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ACCEPTED, REJECTED = HERE / "accepted.py", HERE / "rejected.py"
MARK = "# rejected"
PATIENCE = 300.0


@dataclass(frozen=True)
class Diagnostic:
    """What a checker says about a line, counted from one."""

    file: str
    line: int
    severity: str
    text: str


Report = tuple[Diagnostic, ...]


# -- running the checkers --------------------------------------------------------------------------


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Report]:
    """What each checker says about both files; they run once, side by side."""
    scratch = tmp_path_factory.mktemp("typing")
    commands = {"mypy": mypy_command(scratch), "pyright": pyright_command(scratch)}
    running = {name: _start(command, scratch) for name, command in commands.items()}
    readers = {"mypy": read_mypy, "pyright": read_pyright}
    try:
        return {name: readers[name](_finish(name, each)) for name, each in running.items()}
    finally:
        for each in running.values():
            each.kill()
            each.wait()


def mypy_command(scratch: Path) -> list[str]:
    """Strict, with nothing from a configuration file: what a user of polycast gets."""
    return [
        *(sys.executable, "-m", "mypy", "--strict", "--enable-incomplete-feature=TypeForm"),
        *("--config-file=", f"--cache-dir={scratch / 'mypy'}", "--output=json"),
        *(str(ACCEPTED), str(REJECTED)),
    ]


def pyright_command(scratch: Path) -> list[str]:
    """Strict too; pyright takes that from a file, and the files from the command line."""
    project = scratch / "pyrightconfig.json"
    settings = {"typeCheckingMode": "strict", "enableExperimentalFeatures": True}
    project.write_text(json.dumps(settings), encoding="utf-8")
    return [
        *(sys.executable, "-m", "pyright", "--outputjson"),
        *("--project", str(project), "--pythonpath", sys.executable),
        *(str(ACCEPTED), str(REJECTED)),
    ]


def _start(command: list[str], where: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )


def _finish(name: str, running: subprocess.Popen[str]) -> str:
    output, errors = running.communicate(timeout=PATIENCE)
    # Both end with 1 when they have something to say, with more when they could not run.
    assert running.returncode in (0, 1), f"{name} did not run:\n{output}\n{errors}"
    return output


def read_mypy(output: str) -> Report:
    """mypy writes one JSON object per line."""
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return tuple(
        Diagnostic(Path(row["file"]).name, row["line"], row["severity"], row["message"])
        for row in rows
    )


def read_pyright(output: str) -> Report:
    """pyright writes one JSON object, and counts lines from zero."""
    said = json.loads(output)
    assert said["summary"]["filesAnalyzed"] == 2, "pyright did not look at both files"
    return tuple(
        Diagnostic(
            Path(row["file"]).name,
            row["range"]["start"]["line"] + 1 if "range" in row else 1,
            row["severity"],
            row["message"],
        )
        for row in said["generalDiagnostics"]
    )


# -- comparing -------------------------------------------------------------------------------------


def marked(source: str) -> list[range]:
    """The lines of each marked statement, in order."""
    comments = [
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and token.string.startswith(MARK)
    ]
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    return [_innermost(line, map(_own_lines, statements)) for line in comments]


def _own_lines(node: ast.stmt) -> range:
    """A statement's lines; of one with a body, those of its head."""
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(each.lineno for each in decorators)])
    body = getattr(node, "body", None)
    last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
    return range(first, max(first, last) + 1)


def _innermost(line: int, spans: Iterable[range]) -> range:
    around = [span for span in spans if line in span]
    return min(around, key=len, default=range(line, line + 1))


def disagreements(source: str, report: Report) -> list[str]:
    """Where a report and the marks in a file differ, one sentence each."""
    spans = marked(source)
    said = [each for each in report if each.severity not in ("note", "information")]
    errors = {each.line for each in said if each.severity == "error"}
    missed = [span for span in spans if not errors.intersection(span)]
    beyond = [each for each in said if not any(each.line in span for span in spans)]
    return [
        *(f"line {span[0]} is marked, and was accepted" for span in missed),
        *(f"line {each.line} is not marked: {each.text}" for each in beyond),
    ]


def about(path: Path, report: Report) -> Report:
    """What a report says about one file."""
    return tuple(each for each in report if each.file == path.name)


# -- the claims ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
@pytest.mark.parametrize("path", [ACCEPTED, REJECTED], ids=lambda path: path.stem)
def test_a_checker_says_what_the_file_claims(
    path: Path, checker: str, reports: Mapping[str, Report]
) -> None:
    found = disagreements(path.read_text(encoding="utf-8"), about(path, reports[checker]))
    assert not found, "\n".join(found)


def test_the_example_files_claim_something() -> None:
    assert marked(ACCEPTED.read_text(encoding="utf-8")) == []
    assert marked(REJECTED.read_text(encoding="utf-8")) != []


SOURCE = """\
good()
bad()  # rejected
long(
    1,
    2,  # rejected
    3,
)
def head(  # rejected
    x,
):
    inside()
"""


def said(*lines: int, severity: str = "error") -> Report:
    return tuple(Diagnostic("x.py", line, severity, "wrong") for line in lines)


def test_a_mark_stands_for_the_lines_of_its_own_statement() -> None:
    assert marked(SOURCE) == [range(2, 3), range(3, 8), range(8, 11)]


@pytest.mark.parametrize("lines", [(2, 3, 8), (2, 7, 9), (2, 2, 4, 5, 8)])
def test_errors_on_all_marked_statements_agree(lines: tuple[int, ...]) -> None:
    assert disagreements(SOURCE, said(*lines)) == []


def test_a_marked_line_that_is_accepted_is_a_disagreement() -> None:
    assert disagreements(SOURCE, said(3, 8)) == ["line 2 is marked, and was accepted"]


def test_a_warning_does_not_reject() -> None:
    report = (*said(2, severity="warning"), *said(3, 8))
    assert disagreements(SOURCE, report) == ["line 2 is marked, and was accepted"]


@pytest.mark.parametrize("severity", ["error", "warning"])
def test_anything_on_another_line_is_a_disagreement(severity: str) -> None:
    report = (*said(2, 3, 8), *said(11, severity=severity))
    assert disagreements(SOURCE, report) == ["line 11 is not marked: wrong"]


def test_a_note_is_no_verdict() -> None:
    assert disagreements(SOURCE, (*said(2, 3, 8), *said(1, severity="note"))) == []


def test_a_mark_inside_a_string_is_no_mark() -> None:
    assert marked('x = "# rejected"') == []
