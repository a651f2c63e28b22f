"""A failing program cut down: steps, then statements, then clauses and rows of statements, as long as it
fails in the same way.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.oracle.database import Database
from tests.oracle.formats import OPEN, judge_in
from tests.oracle.program import Program, Step
from tests.oracle.runner import Runner

Fails = Callable[[list[Step]], bool]


def shrink(
    database: Database, program: Program, wrong: str, format_: str = OPEN, *, tries: int = 400
) -> Program:
    """The smallest program found that is wrong in the same way, in that format."""
    left, kind = [tries], kind_of(wrong)

    def fails(steps: list[Step]) -> bool:
        left[0] -= 1
        if left[0] < 0:
            return False
        found = judge_in(rerun(database, replace(program, steps=steps)), format_).wrong
        return found is not None and kind_of(found) == kind

    steps = program.steps
    for pieces in (_steps, _statements, _clauses):
        steps = _smaller(steps, fails, pieces)
    return replace(program, steps=steps)


def rerun(database: Database, program: Program) -> Runner:
    return Runner(database, program).run(program.steps)


def kind_of(wrong: str) -> str:
    """What went wrong, without the names and places."""
    return " ".join(re.findall(r"[A-Za-z]+", wrong)[:1])


def _smaller(
    steps: list[Step], fails: Fails, pieces: Callable[[list[Step]], Iterator[list[Step]]]
) -> list[Step]:
    found = True
    while found:
        found = False
        for candidate in pieces(steps):
            if fails(candidate):
                steps, found = candidate, True
                break
    return steps


def _steps(steps: list[Step]) -> Iterator[list[Step]]:
    """Without a run of steps, long runs first, from the end."""
    size = len(steps)
    while size >= 1:
        for start in range(len(steps) - size, -1, -size):
            if size < len(steps):
                yield steps[:start] + steps[start + size :]
        size //= 2


def _statements(steps: list[Step]) -> Iterator[list[Step]]:
    for place, step in enumerate(steps):
        for number in range(len(step.get("rows", ()))):
            rows = step["rows"][:number] + step["rows"][number + 1 :]
            if rows:
                yield [*steps[:place], {**step, "rows": rows}, *steps[place + 1 :]]


def _clauses(steps: list[Step]) -> Iterator[list[Step]]:
    """Without one of the parts that commas divide; what is no statement then is refused by the server, which
    is no failure.
    """
    for place, step in enumerate(steps):
        if "feed" in step:  # what a feed sends of it would be more than was run
            continue
        texts = step["rows"] if "rows" in step else [step["ddl"]]
        for number, text in enumerate(texts):
            for shorter in _shorter(text):
                new = [*texts[:number], shorter, *texts[number + 1 :]]
                yield [
                    *steps[:place],
                    {**step, **({"rows": new} if "rows" in step else {"ddl": shorter})},
                    *steps[place + 1 :],
                ]


def _shorter(text: str) -> Iterator[str]:
    parts = re.split(r", (?![^()]*\)(?!,))", text)
    for number in range(1, len(parts)):
        yield ", ".join(parts[:number] + parts[number + 1 :])
    head, bracket, body = text.partition("(")
    inner = body.split(", ")
    if bracket and len(inner) > 1:
        for number in range(len(inner)):
            yield head + bracket + ", ".join(inner[:number] + inner[number + 1 :])
