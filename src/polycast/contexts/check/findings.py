"""What a check finds: errors, warnings and observations, each with a code that stays the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, get_args

Severity = Literal["error", "warning", "observation"]

CODES: dict[str, Severity] = {
    # files
    "bad-xml": "error",
    "unknown-function": "error",
    # patterns
    "bad-pattern": "error",
    "unknown-type": "error",
    "ambiguous-type": "error",
    "unknown-attribute": "error",
    "not-a-subtype": "error",
    "not-an-attribute": "error",
    "not-reachable": "error",
    "named-twice": "error",
    "attribute-or-type": "warning",
    "unresolved-annotation": "warning",
    # functions
    "bad-function": "error",
    "bad-argument": "error",
    "bad-result": "error",
    # mappings
    "bad-mapping": "error",
    "bad-direction": "error",
    "not-buildable": "error",
    "nothing-produces": "error",
    "defaulted": "error",
    "does-not-fit": "warning",
    "unused-result": "warning",
    "not-looked-into": "warning",
    "too-many-paths": "error",
    "unrelated-mappings": "warning",
    # statements that are repeated or have no effect
    "mapping-twice": "warning",
    "rule-twice": "warning",
    "nothing-to-disable": "warning",
    "parents-differ": "warning",
    "replaced": "warning",
    # units
    "units-differ": "error",
    "one-unit": "warning",
    # observations
    "no-mapping": "observation",
    "cannot-leave": "observation",
    "never-wins": "observation",
    "both-directions": "observation",
    "shadowed": "observation",
    "declared-order": "observation",
    "dropped": "observation",
    "unknown-inside": "observation",
}


@dataclass(frozen=True)
class Finding:
    """One thing that a check found."""

    code: str
    text: str
    where: str
    """The context, and the rule or mapping in it; for XML the file and line."""

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return CODES[self.code]

    def __str__(self) -> str:
        return f"{self.where}: {self.text} [{self.code}]"


@dataclass(frozen=True)
class Report:
    """All that a check found."""

    context: str
    findings: tuple[Finding, ...] = field(default=())

    @classmethod
    def of(cls, context: str, findings: Iterable[Finding]) -> Report:
        """A report without repetitions, in order."""
        return cls(context, tuple(dict.fromkeys(findings)))

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What makes the context unusable."""
        return self._of("error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What is probably not meant."""
        return self._of("warning")

    @property
    def observations(self) -> tuple[Finding, ...]:
        """What may be worth knowing."""
        return self._of("observation")

    def _of(self, severity: Severity) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == severity)

    def __str__(self) -> str:
        if not self.findings:
            return f"context {self.context!r}: nothing to report"
        return "\n".join(
            f"{kind}: {finding}" for kind in get_args(Severity) for finding in self._of(kind)
        )
