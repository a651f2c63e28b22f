"""docs/semantics-coverage.md and the pages of rules name tests that there are, for every case and rule."""

import re

import pytest

from tests.traps.finding_cases import FINDINGS
from tests.traps.model_cases import CHAPTERS, MODULES, PAGES, RULES, chapter_of, rule_page
from tests.traps.trap_cases import CASES, MENDED, TESTS, covering, known_tests, numbers, page

PAGE = TESTS.parent / "docs" / "semantics-coverage.md"
AGAIN = "run: python -m tests.traps.trap_cases docs/semantics-coverage.md"


def test_every_case_is_known_and_has_tests() -> None:
    tests = known_tests()
    cases = [case for case, (text, _) in CASES.items() if text]

    assert cases == [f"T{number:02}" for number in range(1, 121)]
    assert [name for case in cases for name in covering(case, tests) if name not in tests] == []
    assert [case for case in cases if not covering(case, tests)] == []


def test_the_committed_page_has_a_line_for_every_case_and_names_no_test_that_is_gone() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert re.findall(r"^\| (T\d+) \|", text, re.M) == [case for case, (line, _) in CASES.items() if line], (
        AGAIN
    )
    assert set(re.findall(r"`(test_\w+)`", text)) - known_tests().keys() == set(), AGAIN


def test_a_page_written_now_has_the_cases_in_their_order() -> None:
    sections = [name for name, (text, _) in CASES.items() if not text]

    assert re.findall(r"^## (.*)$", page(), re.M) == [*sections, MENDED]


def test_every_finding_has_tests_that_there_are_and_a_line_of_the_page() -> None:
    named = [name for _, names in FINDINGS.values() for name in names.split()]

    assert [name for name in named if name not in known_tests()] == []
    assert [number for number, (_, names) in FINDINGS.items() if not names] == []
    assert re.findall(r"^\| ([BCGS]\d+|[45]\.\d+) \|", PAGE.read_text(encoding="utf-8"), re.M) == list(
        FINDINGS
    ), AGAIN


def test_the_names_of_tests_tell_their_cases() -> None:
    assert numbers("test_t09_positions") == {9}
    assert numbers("test_t10_t11_t24_again") == {10, 11, 24}
    assert numbers("test_t81_to_t84_values") == {81, 82, 83, 84}
    assert numbers("test_to_be") == set()


def test_every_rule_has_a_number_of_its_own_in_its_chapter() -> None:
    counts = dict.fromkeys(CHAPTERS, 0)
    for number in RULES:
        counts[chapter_of(number)] += 1

    assert sum(len(module.RULES) for module in MODULES) == len(RULES)
    assert [*RULES] == [f"{chapter}.{n}" for chapter, count in counts.items() for n in range(1, count + 1)]
    assert min(counts.values()) > 0
    assert [chapter for *_, chapters in PAGES.values() for chapter in chapters] == [*CHAPTERS]


def test_every_rule_has_tests_that_there_are_or_says_that_it_has_none() -> None:
    known = known_tests()

    assert [name for _, names in RULES.values() for name in names.split() if name not in known] == []
    assert [number for number, (text, names) in RULES.items() if bool(names) == ("No test" in text)] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_committed_page_of_rules_has_a_line_for_every_rule_of_its_chapters(name: str) -> None:
    text = (PAGE.parent / name).read_text(encoding="utf-8")

    def lines(page_: str) -> list[tuple[str, str]]:
        return re.findall(r"^(?:\| (\d+\.\d+) |## )(.*?)(?: \||$)", page_, re.M)

    assert lines(text) == lines(rule_page(name, known_tests())), AGAIN
    assert set(re.findall(r"`(test_\w+)`", text)) - known_tests().keys() == set(), AGAIN
