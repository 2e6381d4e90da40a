"""The smallest scenario that still fails, as far as dropping one thing after the other finds it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from agreement import Add, Ask, Learn, Scenario, Step

__all__ = ["shrunk"]

MOST_TRIES = 600


def shrunk(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    """A scenario that fails, too, and is not larger."""
    tries = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(scenario):
            tries += 1
            if tries > MOST_TRIES:
                return scenario
            if fails(candidate):
                scenario, smaller = candidate, True
                break
    return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Everything that is a little less: the most first."""
    steps = scenario.steps
    size = len(steps)
    while size := size // 2:
        for start in range(0, len(steps), size):
            yield scenario._replace(steps=steps[:start] + steps[start + size :])
    if scenario.limits != "usual":
        yield scenario._replace(limits="usual")
    if scenario.scan != "best":
        yield scenario._replace(scan="best")
    for number, step in enumerate(steps):
        for less in _less(step):
            yield scenario._replace(steps=(*steps[:number], less, *steps[number + 1 :]))


def _less(step: Step) -> Iterator[Step]:
    if isinstance(step, Add) and not step.text.startswith(("@", "etcl: ", "xpath: ")):
        for part in _parts(step.text):
            yield step._replace(text=part)
    if isinstance(step, Ask | Learn):
        for number, event in enumerate(step.events):
            before, after = step.events[:number], step.events[number + 1 :]
            if before or after:
                yield step._replace(events=before + after)
            if not (isinstance(step, Ask) and step.columns):
                for less in _fewer_attributes(event):
                    yield step._replace(events=(*before, less, *after))


def _parts(text: str) -> Iterator[str]:
    """The parts of an expression that are filters by themselves, and it without one of them."""
    match ast.parse(text, mode="eval").body:
        case ast.BoolOp(joint, values):
            yield from map(ast.unparse, values)
            for number in range(len(values)) if len(values) > 2 else ():
                yield ast.unparse(ast.BoolOp(joint, values[:number] + values[number + 1 :]))
            for number, value in enumerate(values):
                for part in _parts(ast.unparse(value)):
                    less = ast.parse(part, mode="eval").body
                    yield ast.unparse(
                        ast.BoolOp(joint, [*values[:number], less, *values[number + 1 :]])
                    )
        case ast.UnaryOp(ast.Not(), operand):
            yield ast.unparse(operand)
            yield from (f"not ({part})" for part in _parts(ast.unparse(operand)))


def _fewer_attributes(event: str) -> Iterator[str]:
    call = ast.parse(event, mode="eval").body
    if isinstance(call, ast.Call):
        for number in range(len(call.keywords)):
            left = call.keywords[:number] + call.keywords[number + 1 :]
            yield ast.unparse(ast.Call(call.func, call.args, left))
