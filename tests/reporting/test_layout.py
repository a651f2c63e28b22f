"""Tables and colours: what a terminal gets, and what a file gets."""

import io

import pytest

from lakehouse.reporting.text.layout import grid, heading, line, state, write
from lakehouse.reporting.text.rows import row_lines
from lakehouse.reporting.text.values import ago, counted, duration, listed, pace, place, safe, size, statement

TSO = 470606995849740288
PARTS = [
    heading("shop"),
    grid([("a.b", state("exact"), "7"), ("orders", state("behind"), "1,204")], ("table", "", "n"), (2,)),
]
WIDE = [grid([("shop.orders", "a reason that is longer than the terminal is wide " * 3)])]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(parts: list, out: io.StringIO) -> str:
    write(parts, out)
    return out.getvalue()


@pytest.fixture(autouse=True)
def a_plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")


def test_a_file_gets_plain_aligned_text() -> None:
    assert written(PARTS, io.StringIO()) == (
        "shop\n  table               n\n  a.b     exact       7\n  orders  behind  1,204\n"
    )


def test_a_terminal_gets_colours_but_not_under_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = written(PARTS, Terminal())
    monkeypatch.setenv("NO_COLOR", "1")

    assert "\x1b[32mexact" in coloured
    assert "\x1b[3" not in written(PARTS, Terminal())


def test_a_table_fits_a_terminal_and_is_not_wrapped_in_a_file() -> None:
    assert max(map(len, written(WIDE, Terminal()).splitlines())) <= 60
    assert len(written(WIDE, io.StringIO()).splitlines()) == 1


def test_a_line_with_a_command_is_left_to_the_terminal_to_wrap() -> None:
    command = f"lakehouse ddl approve {'x' * 80}"

    assert written([line("  ", command)], Terminal()) == f"  {command}\n"


def test_text_of_a_feed_can_steer_no_terminal() -> None:
    assert safe("a\x1b[2J\nb\u202ec\x00") == "a\\u001b[2J\\nb\\u202ec\\u0000"
    assert "\x1b" not in "".join(row_lines([{"a\x1b": "\x1b[2J"}], 80))
    assert written([line("[red]x[/red] :smile:")], Terminal()) == "[red]x[/red] :smile:\n"


def test_rows_are_written_page_by_page_and_no_rows_are_said() -> None:
    lines = list(row_lines({"id": number, "v": "x" * (number // 600)} for number in range(1201)))

    assert lines[0].split() == ["id", "v"]
    assert lines[2:4] == ["  0", "  1"]
    assert lines[-2:] == ["1200  xx", "(1,201 rows)"]
    assert list(row_lines([])) == ["(0 rows)"]


def test_a_long_value_is_cut_on_a_terminal_alone() -> None:
    (_, _, cut, _), (_, _, whole, _) = (row_lines([{"v": "漢" * 50}], width) for width in (80, None))

    assert cut == "漢" * 29 + "…"
    assert whole == "漢" * 50


@pytest.mark.parametrize(
    ("position", "order", "text"),
    [
        ((0, TSO, 2, 0, 0, 0), "tidb", f"2026-11-21 01:07:00 UTC (TSO {TSO})"),
        ((3, TSO, 1, 0, 0, 0), None, f"2026-11-21 01:07:00 UTC (TSO {TSO}), epoch 3"),
        ((0, 12, 88213, 1, 0, 0), "binlog", "binlog 12:88213"),
        ((0, 12, 88213, 1, 0, 0), None, "12:88213"),
        ((0, 77, 3, 1, 0, 0), "arrival", "offset 77"),
        ((0, TSO, 0, 4, 2, 0), "files", "file 4 of no date"),
    ],
)
def test_a_position_is_written_as_its_order_means_it(position: tuple, order: str | None, text: str) -> None:
    assert place(position, order) == text


def test_numbers_are_written_as_people_say_them() -> None:
    assert [ago(seconds) for seconds in (-5, 0.4, 59, 182, 7300, 90_000, 300_000)] == [
        "just now",
        "just now",
        "59 s ago",
        "3 min ago",
        "2 h ago",
        "25 h ago",
        "3 days ago",
    ]
    assert [duration(seconds) for seconds in (0, 0.25, 12.6)] == ["0 s", "0.2 s", "13 s"]
    assert [size(count) for count in (0, 999, 1_234_567, 5 * 10**15)] == [
        "0 B",
        "999 B",
        "1.2 MB",
        "5000.0 TB",
    ]
    assert [counted(1, "batch"), counted(1200, "batch"), counted(0, "message")] == [
        "1 batch",
        "1,200 batches",
        "0 messages",
    ]
    assert [listed([]), listed(["a"]), listed(["a", "b", "c"]), listed(list("abcde"))] == [
        "none",
        "a",
        "a, b and c",
        "a, b, c and 2 more",
    ]
    assert statement("ALTER  TABLE t\n ADD c INT", 20) == "ALTER TABLE t ADD c…"


def test_a_rate_is_said_of_work_that_took_time_and_what_is_left_where_it_is_known() -> None:
    assert pace(1_000_000, 50, 3_000_000) == ", 20,000 a second, about 2 min left"
    assert pace(1_000_000, 50) == pace(1_000_000, 50, 0) == ", 20,000 a second"
    assert pace(58, 9.9, 100) == pace(0, 70, 100) == pace(3, 60, 9) == ""
    assert pace(20, 10, 2_000) == ", 2 a second, about 17 min left"
    assert pace(20, 10, 200_000) == ", 2 a second"  # that told 28 hours, of work that took minutes
