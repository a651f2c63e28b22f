"""The pages docs/model-coverage.md and docs/model-coverage-gold.md: every rule by which changes become exact
tables, by chapter and number, and the tests that fail where it does not hold.

`python -m tests.traps.trap_cases docs/semantics-coverage.md` writes them beside that page.
"""

from tests.traps import rules_of_arrival, rules_of_identity, rules_of_runs, rules_of_tables

CHAPTERS = {
    1: "Order and identity of changes",
    2: "Messages made whole before they are decoded",
    3: "Duplicates in silver",
    4: "Watermarks",
    5: "Tables and their names",
    6: "DDL and schemas",
    7: "The fold",
    8: "Progress, crashes, manifests",
    9: "Modes",
    10: "Snapshots",
    11: "Retention and generations",
    12: "Reconciliation",
}
MODULES = (rules_of_identity, rules_of_arrival, rules_of_tables, rules_of_runs)
# number: (what is to be right, tests); a rule that no test shows says so in its text
RULES: dict[str, tuple[str, str]] = {
    number: rule for module in MODULES for number, rule in module.RULES.items()
}
TABLE = ("| | what is to be right | tests |", "|---|---|---|")
HEAD = """# {title}

{first}, by chapter and number,
each with the tests that fail where it does not hold. What a line says is not kept is a limit.
{other}
`python -m tests.traps.trap_cases docs/semantics-coverage.md` writes the page; a test holds it to the tests
that there are.
"""
# page: (title, what it has, where the rest is, its chapters)
PAGES = {
    "model-coverage.md": (
        "Rules: from feeds to silver",
        "The rules by which messages become the changes of silver, once each and in order",
        "[From silver to gold](model-coverage-gold.md) has the others, "
        "[the traps](semantics-coverage.md) what goes wrong without them.",
        range(1, 5),
    ),
    "model-coverage-gold.md": (
        "Rules: from silver to gold",
        "The rules by which the changes of silver become tables, and runs publish them",
        "[From feeds to silver](model-coverage.md) has the others, "
        "[the traps](semantics-coverage.md) what goes wrong without them.",
        range(5, 13),
    ),
}


def chapter_of(number: str) -> int:
    return int(number.partition(".")[0])


def rule_page(name: str, tests: dict[str, str]) -> str:
    """A page; `tests` has the file of each test by its name."""
    title, first, other, chapters = PAGES[name]
    lines = [HEAD.format(title=title, first=first, other=other)]
    for chapter in chapters:
        lines += [
            f"## {chapter}. {CHAPTERS[chapter]}\n",
            "| | what is to be right | tests |",
            "|---|---|---|",
        ]
        for number, (text, names) in RULES.items():
            if chapter_of(number) == chapter:
                found = [f"`{test}` ({tests.get(test, 'missing')})" for test in names.split()]
                lines.append(f"| {number} | {text} | {', '.join(found) or 'none'} |")
        lines.append("")
    return "\n".join(lines)
