"""What source code must not do, because text and bytes of others come near it.

The linter's security rules (`S` in pyproject.toml) find what is dangerous everywhere. The rules
here are ours, with the few modules that may do a thing all the same, each with its reason.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"

# -- what no module may do -------------------------------------------------------------------------

# They make objects of any class from bytes, or run what is in a file.
NEVER_IMPORTED = {
    *("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "jsonpickle", "joblib", "shelve"),
    *("marshal", "copyreg", "yaml", "ruamel", "code", "codeop", "runpy", "imp", "ctypes"),
    # Parsers of XML that follow entities unless they are told not to; ours are made with expat.
    *("xml.etree", "xml.dom", "xml.sax", "xml.sax.expatreader", "lxml", "plistlib"),
    *("xmlrpc.client.loads", "xmlrpc.client.ServerProxy", "xmlrpc.server"),
}
IMPORTED_ALL_THE_SAME = {"xml.sax.saxutils"}  # it escapes, and parses nothing

NEVER_CALLED = {
    "eval": "it runs text",
    "builtins.eval": "it runs text",
    "__import__": "a name decides what is imported",
    "builtins.__import__": "a name decides what is imported",
    "pkgutil.resolve_name": "a name decides what is imported",
    "pydoc.locate": "a name decides what is imported",
    "os.system": "it starts a shell",
    "os.popen": "it starts a shell",
    "subprocess.getoutput": "it starts a shell",
    "subprocess.getstatusoutput": "it starts a shell",
    "asyncio.create_subprocess_shell": "it starts a shell",
    "tempfile.mktemp": "somebody else may make the file first",
    "pickle.loads": "it makes objects of any class",
    "yaml.load": "it makes objects of any class",
    "input": "it waits for a person",
    "ssl._create_unverified_context": "the other side could be anybody",
    "extractall": "an archive says where its files go",
    "set_trace": "it waits for a person",
    "breakpoint": "it waits for a person",
}
NEVER_GIVEN = {"shell": True, "check_hostname": False, "verify": False}
NEVER_SET = {"check_hostname": "False", "verify_mode": "ssl.CERT_NONE"}

# -- what a few may, and why -----------------------------------------------------------------------

COMPILERS = {
    "polycast/contexts/compile/translation_codegen.py": "translations, made from checked recipes",
    "polycast/events/generated_functions.py": "codecs, made from descriptions of types",
    "polycast/filters/backends/python.py": "filters, made from checked trees",
    "polycast/filters/lifting/function.py": "a part of a lambda of this process",
    "polycast/filters/lifting/function_source.py": "text to a tree, to compare it with a lambda",
    "polycast/matching/index/index_codegen.py": "tests of an index, made from checked trees",
    "polycast/routing/publish_codegen.py": "routes, made from the shape of a plan",
}
"""Modules that make code: everything that goes into its text is ours or was made a literal."""

IMPORTERS = {
    "polycast/cli/command_line.py": "commands, by the keys of a table of its own",
    "polycast/registered_names.py": "the one place where names become things",
}
FINDERS = {
    "polycast/pipeline/code_distribution.py": "modules that whoever runs a pipeline lists",
}
READERS = {
    "polycast/registered_names.py": "the one place where names become things",
    "polycast/delivery/delivery.py": "how the module of a user's connection has marks",
    "polycast/typesystem/type_expressions.py": "what an annotation of a class of ours means",
}
STARTERS = {
    "polycast/cli/pager.py": "the pager of whoever runs a command, with a list of arguments",
    "polycast/pipeline/spark_session.py": "asks Java for its version, with a list of arguments",
}

SQL_PARTS = {
    "polycast/delivery/delivery.py": {
        *("TABLE", "wanted", "', '.join(COLUMNS)", "', '.join(marks)"),
    },
    "polycast/stores/doctor/verifier.py": {"key", "table", "LISTED"},
    "polycast/stores/sqlite/event_log.py": {
        "table.table",
        "_COLUMNS",
        "_RANGE",
        "columns",
        "which",
    },
    "polycast/stores/sqlite/row_format.py": {"table", "columns", "', '.join('?' * self.width)"},
    "polycast/stores/sqlite/schema.py": {"pragma", "APPLICATION", "done + 1"},
    "polycast/stores/sqlite/state.py": {"table", "which"},
    "polycast/stores/sqlite/routing_state.py": {"self._table.table", "_THERE"},
}
"""What is put into the text of SQL: names of tables and columns of ours, and marks for values."""


class Module:
    """A module that is looked at by all rules."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.nodes = tuple(ast.walk(ast.parse(source)))
        self.calls = [
            (ast.unparse(node.func), node) for node in self.nodes if isinstance(node, ast.Call)
        ]
        self.imports = list(self._imports())

    def _imports(self) -> Iterator[tuple[int, str]]:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                yield from ((node.lineno, f"{node.module}.{each.name}") for each in node.names)


Rule = Callable[[Module], Iterator[str]]


def forbidden_imports(module: Module) -> Iterator[str]:
    for line, name in module.imports:
        if any(f"{name}.".startswith(f"{each}.") for each in IMPORTED_ALL_THE_SAME):
            continue
        for bad in NEVER_IMPORTED:
            if f"{name}.".startswith(f"{bad}."):
                yield f"{line}: {bad} is never imported"


def forbidden_calls(module: Module) -> Iterator[str]:
    for name, node in module.calls:
        for bad, why in NEVER_CALLED.items():
            if name == bad or ("." not in bad and name.endswith(f".{bad}") and bad != "eval"):
                yield f"{node.lineno}: {name}: {why}"
        for keyword in node.keywords:
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if keyword.arg in NEVER_GIVEN and value is NEVER_GIVEN[keyword.arg]:
                yield f"{node.lineno}: {keyword.arg}={value}"


def forbidden_settings(module: Module) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                name, value = ast.unparse(target).rpartition(".")[2], ast.unparse(node.value)
                if NEVER_SET.get(name) == value:
                    yield f"{node.lineno}: {ast.unparse(node)}"


def code_made(module: Module) -> Iterator[str]:
    """Where text or code objects become functions."""
    made = {"compile", "exec", "builtins.exec", "builtins.compile", "compile_quietly"}
    made |= {"FunctionType", "types.FunctionType", "CodeType", "types.CodeType", "LambdaType"}
    for name, node in module.calls:
        if name in made and module.name not in COMPILERS:
            yield f"{node.lineno}: {name}(): only a module that generates code makes code"


def imports_by_name(module: Module) -> Iterator[str]:
    """Where a text that is not written there says what is imported."""
    ways = {"import_module": IMPORTERS, "find_spec": FINDERS}
    ways |= {each: {} for each in ("spec_from_file_location", "module_from_spec", "exec_module")}
    for name, node in module.calls:
        may = ways.get(name.rpartition(".")[2])
        if may is None or module.name in may:
            continue
        if not (node.args and isinstance(node.args[0], ast.Constant)):
            yield f"{node.lineno}: {name}() with a name from elsewhere"
    for line, name in module.imports:
        if name.partition(".")[0] == "pkgutil":
            yield f"{line}: pkgutil finds modules by name"


def modules_looked_up(module: Module) -> Iterator[str]:
    """Where a loaded module is found by a name; a class's own module may be asked for."""
    if module.name in READERS:
        return
    for node in module.nodes:
        match node:
            case ast.Subscript(value=value, slice=key):
                pass
            case ast.Call(func=ast.Attribute(attr="get", value=value), args=[key, *_]):
                pass
            case _:
                continue
        own = isinstance(key, ast.Constant) or ast.unparse(key).endswith(".__module__")
        if ast.unparse(value) == "sys.modules" and not own:
            yield f"{node.lineno}: {ast.unparse(node)}"


def programs_started(module: Module) -> Iterator[str]:
    for line, name in module.imports:
        if name.partition(".")[0] in ("subprocess", "pty") and module.name not in STARTERS:
            yield f"{line}: {name}: no other program is started here"
    for name, node in module.calls:
        if re.match(r"os\.(exec|spawn|posix_spawn|fork|startfile)", name):
            yield f"{node.lineno}: {name}: no other program is started here"


def entities_followed(module: Module) -> Iterator[str]:
    """Parsers of XML that do not refuse a document type, in which entities are declared."""
    makers = [node for name, node in module.calls if name.endswith("ParserCreate")]
    for node in module.nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        inside = list(ast.walk(node)) if makers else []
        if any(maker in inside for maker in makers) and not any(map(_refuses_types, inside)):
            yield f"{node.lineno}: {node.name}: entities are not refused"


def _refuses_types(node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=[*_, ast.Attribute(attr="StartDoctypeDeclHandler")], value=value):
            return not (isinstance(value, ast.Constant) and value.value is None)
    return False


def claims_that_decide(module: Module) -> Iterator[str]:
    """Where `assert` does more than to tell the type checker what is so: -O leaves it out."""
    for node in module.nodes:
        if isinstance(node, ast.Assert):
            match node.test:
                case ast.Compare(ops=[ast.IsNot()], comparators=[ast.Constant(None)]):
                    pass
                case ast.Call(func=ast.Name(id="isinstance" | "issubclass")):
                    pass
                case _:
                    yield f"{node.lineno}: {ast.unparse(node)}"


SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|PRAGMA|ATTACH|VACUUM)\b")


def sql_parts(module: Module) -> Iterator[str]:
    """What is put into SQL that is no name of ours."""
    known = SQL_PARTS.get(module.name, set())
    for node in module.nodes:
        if not isinstance(node, ast.JoinedStr):
            continue
        text = "".join(str(each.value) for each in node.values if isinstance(each, ast.Constant))
        if SQL.match(text):
            for value in node.values:
                part = ast.unparse(value.value) if isinstance(value, ast.FormattedValue) else None
                if part is not None and part not in known:
                    yield f"{node.lineno}: {part} is put into SQL"


RULES: tuple[Rule, ...] = (
    forbidden_imports,
    forbidden_calls,
    forbidden_settings,
    code_made,
    imports_by_name,
    modules_looked_up,
    programs_started,
    entities_followed,
    claims_that_decide,
    sql_parts,
)


@cache
def modules() -> tuple[Module, ...]:
    """Every module of polycast."""
    return tuple(
        Module(path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_module_breaks_a_rule(rule: Rule) -> None:
    found = [f"{module.name}:{each}" for module in modules() for each in rule(module)]
    assert not found, "\n".join(found)


def test_who_may_do_what_others_must_not_is_there() -> None:
    named = {*COMPILERS, *IMPORTERS, *FINDERS, *READERS, *STARTERS, *SQL_PARTS}
    assert named <= {module.name for module in modules()}, "an exception for a module that has gone"


PLANTED = [
    (forbidden_imports, "import pickle"),
    (forbidden_imports, "def f():\n    from pickle import loads"),
    (forbidden_imports, "import marshal"),
    (forbidden_imports, "import cloudpickle as kept"),
    (forbidden_imports, "from xml.etree import ElementTree"),
    (forbidden_imports, "import xml.etree.ElementTree as ET"),
    (forbidden_imports, "from xml import sax"),
    (forbidden_imports, "from lxml import etree"),
    (forbidden_imports, "from xmlrpc.client import loads"),
    (forbidden_imports, "import yaml"),
    (forbidden_calls, "eval(text)"),
    (forbidden_calls, "__import__(name)"),
    (forbidden_calls, "os.system(text)"),
    (forbidden_calls, "subprocess.run(text, shell=True)"),
    (forbidden_calls, "asyncio.create_subprocess_shell(text)"),
    (forbidden_calls, "tempfile.mktemp()"),
    (forbidden_calls, "yaml.load(text)"),
    (forbidden_calls, "archive.extractall(folder)"),
    (forbidden_calls, "connect(check_hostname=False)"),
    (forbidden_settings, "context.check_hostname = False"),
    (forbidden_settings, "context.verify_mode = ssl.CERT_NONE"),
    (code_made, "exec(text)"),
    (code_made, "compile(text, 'here', 'exec')"),
    (code_made, "types.FunctionType(code, {})"),
    (imports_by_name, "importlib.import_module(name)"),
    (imports_by_name, "import_module(f'polycast.{name}')"),
    (imports_by_name, "importlib.util.find_spec(name)"),
    (imports_by_name, "importlib.util.spec_from_file_location(name, path)"),
    (imports_by_name, "from pkgutil import resolve_name"),
    (modules_looked_up, "sys.modules[name]"),
    (modules_looked_up, "sys.modules.get(name)"),
    (programs_started, "import subprocess"),
    (programs_started, "os.execv(path, [])"),
    (entities_followed, "def f():\n    parser = expat.ParserCreate()"),
    (
        entities_followed,
        "def f():\n    p = expat.ParserCreate()\n    p.StartDoctypeDeclHandler = None",
    ),
    (claims_that_decide, "assert user.may_publish"),
    (claims_that_decide, "assert len(data) < LONGEST"),
    (sql_parts, "f'SELECT * FROM log WHERE name = {name}'"),
    (sql_parts, "f'DELETE FROM {name}'"),
]


@pytest.mark.parametrize(
    ("rule", "source"), PLANTED, ids=lambda each: getattr(each, "__name__", each)
)
def test_a_planted_violation_is_found(rule: Rule, source: str) -> None:
    assert len(list(rule(Module("polycast/bus/planted.py", source)))) == 1


ALLOWED = [
    "from xml.sax.saxutils import quoteattr",
    "from xml.parsers import expat",
    "import_module('polycast.matching.native._kernel')",
    "find_spec('numpy')",
    "sys.modules['polycast']",
    "sys.modules[cls.__module__]",
    "from xmlrpc.client import DateTime",
    "def f():\n    p = expat.ParserCreate()\n    p.StartDoctypeDeclHandler = refuse",
    "re.compile(text)",
    "assert found is not None",
    "assert isinstance(found, list)",
    "subscription.verify(name, verify=True)",
    "connection.execute('SELECT * FROM log WHERE name = ?', (name,))",
    "f'Selected: {name}'",
]


@pytest.mark.parametrize("source", ALLOWED)
def test_what_is_harmless_is_left_alone(source: str) -> None:
    module = Module("polycast/bus/planted.py", source)
    assert [each for rule in RULES for each in rule(module)] == []


# -- the linter ------------------------------------------------------------------------------------

SUPPRESSED = re.compile(r"#\s*noqa:[^#]*\bS\d+[A-Z0-9, ]*(?P<why>.*)")


def suppressions_without_reason(text: str) -> list[int]:
    """Where a finding of the security rules is left out, and nobody says why."""
    return [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if (found := SUPPRESSED.search(line)) and len(found["why"].split()) < 2
    ]


def python_files() -> list[Path]:
    """Everything that the linter looks at."""
    folders = ("src", "tests", "benchmarks", "examples")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def test_whoever_silences_a_security_rule_says_why() -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in python_files()
        if path != Path(__file__)
        and (lines := suppressions_without_reason(path.read_text(encoding="utf-8")))
    }
    assert not found


@pytest.mark.parametrize("comment", ["# noqa: S301", "# noqa: E501, S602", "# noqa: S603  ok"])
def test_a_silenced_rule_without_a_reason_is_found(comment: str) -> None:
    assert suppressions_without_reason(f"x = 1\nf(x)  {comment}") == [2]


def test_a_silenced_rule_with_a_reason_is_left_alone() -> None:
    assert suppressions_without_reason("f(x)  # noqa: S301  (of this process)") == []
    assert suppressions_without_reason("f(x)  # noqa: SIM105") == []


def linted(place: str, source: str) -> str:
    """What the linter says of a text, as if it were in a file of ours."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--stdin-filename", place, "-"],
        cwd=ROOT,
        input=source,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout


DANGEROUS = {
    "S301": "import pickle\nkept = pickle.loads(b'')\n",
    "S302": "import marshal\nkept = marshal.loads(b'')\n",
    "S306": "import tempfile\nplace = tempfile.mktemp()\n",
    "S307": "found = eval(input())\n",
    "S314": "from xml.etree import ElementTree\nfound = ElementTree.parse('x')\n",
    "S324": "import hashlib\nfound = hashlib.md5(b'')\n",
    "S501": "import httpx\nfound = httpx.get('https://x.example', verify=False, timeout=1)\n",
    "S506": "import yaml\nfound = yaml.load('x')\n",
    "S602": "import subprocess\nsubprocess.run('echo ' + input(), shell=True)\n",
}


@pytest.mark.parametrize("folder", ["src/polycast/bus", "tests/bus", "benchmarks", "examples"])
def test_the_linter_finds_what_is_dangerous_everywhere(folder: str) -> None:
    said = linted(f"{folder}/planted.py", "".join(DANGEROUS.values()))
    assert {rule for rule in DANGEROUS if rule not in said} == set()


IN_SOURCE_ONLY = {
    "S102": "exec(input())\n",
    "S104": "place = '0.0.0.0'\n",
    "S311": "import random\ntoken = random.random()\n",
    "S603": "import subprocess\nsubprocess.run([input()], check=True)\n",
    "S608": "def f(name, run):\n    run(f'DELETE FROM x WHERE y = {name}')\n",
}


def test_the_linter_is_stricter_with_what_is_shipped() -> None:
    said = linted("src/polycast/bus/planted.py", "".join(IN_SOURCE_ONLY.values()))
    assert {rule for rule in IN_SOURCE_ONLY if rule not in said} == set()
