"""docs/semantics-coverage.md says what the tests are."""

from trap_cases import CASES, TESTS, covering, known_tests, numbers, page

OPEN = {"T37", "T75", "T115", "T117", "T118", "T119"}


def test_every_case_has_its_line_and_every_test_that_is_named_exists() -> None:
    tests = known_tests()
    cases = [case for case, (text, _) in CASES.items() if text]

    assert cases == [f"T{number:02}" for number in range(1, 121)]
    assert [name for case in cases for name in covering(case, tests) if name not in tests] == []
    assert {case for case in cases if not covering(case, tests)} <= OPEN


def test_the_names_of_tests_tell_their_cases() -> None:
    assert numbers("test_t09_positions") == {9}
    assert numbers("test_t10_t11_t24_again") == {10, 11, 24}
    assert numbers("test_t81_to_t84_values") == {81, 82, 83, 84}
    assert numbers("test_to_be") == set()


def test_the_committed_page_is_the_tests() -> None:
    page_file = TESTS.parent / "docs" / "semantics-coverage.md"

    assert page_file.read_text(encoding="utf-8") == page(), "run: python tests/traps/trap_cases.py docs/semantics-coverage.md"
