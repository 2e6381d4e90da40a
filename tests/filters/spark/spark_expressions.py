"""Filters by chance: expressions over an order that are mostly well typed, and sometimes not."""

from __future__ import annotations

from random import Random

from spark_events import TEXTS

NUMERIC = "t.total t.maybe t.rate t.fraction t.flag t.line.price t.line.weight t.extra.price "
NUMERIC += "t.marks[0] t.marks[-1] t.holes[1] t.ratios[0] t.table['a'] t.x_0 t.level.value "
NUMERIC += "len(t.note) len(t.tags) t.note.find('b') t.lines[0].price t.table.get('abc')"
TEXTUAL = "t.note t.comment t.line.name t.extra.name t.tags[0] t.note[0] t.comment[-1] "
TEXTUAL += "t.word.value t.colour.name t.note.strip() t.comment.strip('ab') t.lines[-1].name "
TEXTUAL += "t.note.lower() t.comment.upper()"
OTHER = "t.sure t.blob t.day t.due t.at t.when t.amount t.cost t.colour t.level t.word t.key "
OTHER += "t.extra t.lines t.marks t.holes t.tags t.ratios t.bag t.table None True False t"
CONSTANTS = "DAY NAIVE AWARE COST KEY Colour.RED Colour.CRIMSON Level.LOW Word.ABC b'a' None"
NUMBERS = "0 1 -1 2 3 0.5 -2.5 1e300 NAN INF 9007199254740992.0 True "
NUMBERS += " ".join(
    str(n) for n in (2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30, 10**40, 10**400)
)
ALIKE = [
    ["t.at", "t.when", "NAIVE", "AWARE"],
    ["t.day", "t.due", "DAY"],
    ["t.amount", "t.cost", "COST", "t.total"],
    ["t.blob", "b'a'"],
    ["t.key", "KEY"],
    ["t.flag", "t.sure", "True"],
    ["t.marks", "t.marks", "None"],
    ["t.note.lower()", "t.comment.upper()", "t.comment.strip()", "'abc'"],
]
MEMBERS = ["Colour.RED", "Colour.BLUE", "Level.LOW", "Word.ABC", "None"]
ORDERS = ["==", "!=", "<", "<=", ">", ">="]


class Chance:
    """Expressions that are mostly well typed, and sometimes not."""

    def __init__(self, random: Random) -> None:
        self.random, self.pick = random, random.choice
        self.depth = 0  # quantifiers around

    def number(self, size: int) -> str:
        kind = self.pick("ppppllaaasfmo") if size > 0 else self.pick("ppl")
        if kind == "p":
            return self.pick(NUMERIC.split())
        if kind == "l":
            return self.pick(NUMBERS.split())
        if kind == "a":
            sign = self.pick(["+", "-", "*", "%", "/", "//", "&", "|", "^"])
            return f"({self.number(size - 1)} {sign} {self.number(size - 1)})"
        if kind == "s":
            return f"(-{self.number(size - 1)})"
        if kind == "f":
            return f"abs({self.number(size - 1)})"
        if kind == "m":
            function = self.pick(["min", "max"])
            return f"{function}({self.number(size - 1)}, {self.number(size - 1)})"
        return f"({self.any(size - 1)} {self.pick(['or', 'and'])} {self.number(size - 1)})"

    def text(self, size: int) -> str:
        kind = self.pick("ppplc") if size > 0 else self.pick("ppl")
        if kind == "p":
            return self.pick(TEXTUAL.split())
        if kind == "l":
            return repr(self.pick(TEXTS))
        return f"({self.text(size - 1)} + {self.text(size - 1)})"

    def any(self, size: int) -> str:
        kind = self.pick("nntoc") if size > 0 else self.pick("ntoc")
        if kind == "n":
            return self.number(size)
        if kind == "t":
            return self.text(size)
        return self.pick(OTHER.split() if kind == "o" else CONSTANTS.split())

    def test(self, size: int) -> str:
        """A condition."""
        two = (self.number, self.number), (self.text, self.text), (self.any, self.any)
        kind = self.pick("cccccliiieqqsaaon" if size > 0 else "cclies")
        left, right = self.pick([*two[:1] * 4, *two[1:2] * 2, two[2]])
        below = size - 1
        if kind == "c":
            return f"({left(below)} {self.pick(ORDERS)} {right(below)})"
        if kind == "l":
            alike = self.pick(ALIKE)
            return f"({self.pick(alike)} {self.pick(ORDERS)} {self.pick(alike)})"
        if kind == "i":
            return self.membership(below)
        if kind == "e":
            return self.member()
        if kind == "q":
            return self.quantified(below)
        if kind == "s":
            method = self.pick(["startswith", "endswith"])
            return f"{self.text(below)}.{method}({self.text(below)})"
        if kind == "a":
            joint = self.pick([" and ", " or "])
            return f"({joint.join(self.test(below) for _ in range(self.pick([2, 3])))})"
        if kind == "o":
            a, b, c = (self.number(below) for _ in range(3))
            return f"({a} {self.pick(ORDERS)} {b} {self.pick(ORDERS)} {c})"
        return f"(not {self.pick([self.test, self.any])(below)})"

    def membership(self, size: int) -> str:
        sign = self.pick(["in", "not in"])
        return self.pick(
            [
                f"({self.text(size)} {sign} {self.text(size)})",
                f"({self.number(size)} {sign} {self.pick(['t.marks', 't.holes', 't.bag'])})",
                f"({self.any(size)} {sign} {self.pick(['NUMBERS', 'WORDS', 't.tags'])})",
                f"({self.text(size)} {sign} t.table)",
                f"({self.number(size)} {sign} ({self.number(size)}, {self.number(size)}))",
                f"({self.any(size)} {self.pick(['is', 'is not'])} None)",
                f"isinstance({self.any(size)}, (int, str))",
            ]
        )

    def member(self) -> str:
        of = self.pick(["t.colour", "t.level", "t.word"])
        constant = self.pick([*MEMBERS, "1", "'one'", "0.5"])
        containers = ["(Colour.RED, Level.LOW, 'abc')", "'abcone'", "t.note"]
        sign = self.pick([*ORDERS, "is", "is not", "in"])
        if sign == "in":
            return f"({of} in {self.pick(containers)})"
        if sign.startswith("is"):
            constant = self.pick(MEMBERS)
        return f"({of} {sign} {constant})"

    def quantified(self, size: int) -> str:
        self.depth += 1
        name = f"x{self.depth}"
        over, parts = self.pick(
            [
                ("t.lines", [f"{name}.price", f"{name}.weight", f"{name}.name"]),
                ("t.holes", [name]),
                ("t.marks", [name]),
                ("t.tags", [name, f"len({name})"]),
                ("t.ratios", [name]),
                ("t.bag", [name]),
            ]
        )
        condition = f" if {self.inner(parts, size)}" if self.pick([True, False]) else ""
        function = self.pick(["any", "all"])
        made = f"{function}({self.inner(parts, size)} for {name} in {over}{condition})"
        self.depth -= 1
        return made

    def inner(self, parts: list[str], size: int) -> str:
        part = self.pick(parts)
        if size > 0 and self.pick([True, False, False]):
            return f"({part} {self.pick(ORDERS)} {part} or {self.test(size - 1)})"
        other = self.pick([self.number, self.number, self.any, self.text])(0)
        return self.pick([part, f"({part} {self.pick(ORDERS)} {other})", f"not {part}"])
