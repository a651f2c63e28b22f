"""Signs of life of long work, on a terminal and in a log."""

import io
import time

import pytest

from lakehouse.reporting import heartbeat as module
from lakehouse.reporting.heartbeat import heartbeat, still
from lakehouse.reporting.logs import coloured, say
from lakehouse.reporting.steps import Steps


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def as_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error as a terminal; called in a test, for pytest sets its own before each."""
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("LAKEHOUSE_LOG_FORMAT", raising=False)
    return shown


def test_a_log_has_a_line_where_work_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with heartbeat(0.05):
        say("silver  shop: batch 1")
        time.sleep(0.4)

    first, *others = capsys.readouterr().err.splitlines()
    assert first == "silver  shop: batch 1"
    assert others
    assert {line.partition(" after: ")[2] for line in others} == {"silver  shop: batch 1"}


def test_a_log_has_no_line_where_work_is_quick(capsys: pytest.CaptureFixture[str]) -> None:
    with heartbeat():
        say("silver  shop: batch 1")

    assert capsys.readouterr().err == "silver  shop: batch 1\n"


def test_a_terminal_shows_how_long_the_last_line_is_ago_and_wipes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = as_terminal(monkeypatch)

    with heartbeat(0.05):
        say("silver  shop: batch 1")
        time.sleep(0.4)

    drawn, wipe = terminal.getvalue(), "\r\x1b[K"
    assert drawn.startswith(f"silver  shop: batch 1\n{wipe}  0 s …")
    assert drawn.endswith(f" s …{wipe}")


def test_a_sign_of_life_says_since_when() -> None:
    assert (
        still("bronze  shop: 7 new messages", 185)
        == "still at work, 3 min after: bronze  shop: 7 new messages"
    )
    assert still("gold", 185, "37 of 200 tasks") == "still at work, 37 of 200 tasks, 3 min after: gold"
    assert still("", 61) == "still at work, 61 s after the begin"
    warned = still("warning: " + "a long sentence " * 20, 61)
    assert warned.startswith("still at work, 61 s after: warning: a long sentence") and len(warned) < 110
    assert (module.ON_A_TERMINAL, module.IN_A_LOG) == (1.0, 60.0)


def test_signs_of_life_say_how_far_the_work_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with heartbeat(0.05, lambda: "37 of 200 tasks"):
        time.sleep(0.2)
    assert capsys.readouterr().err.startswith("still at work, 37 of 200 tasks, 0.")

    terminal = as_terminal(monkeypatch)
    with heartbeat(0.05, lambda: "37 of 200 tasks"):
        time.sleep(0.2)
    assert " …  37 of 200 tasks" in terminal.getvalue()


def test_steps_say_how_many_are_done_and_how_long_the_rest_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    clock = iter([0.0, 5.0, 60.0, 70.0, 90.0])
    monkeypatch.setattr("lakehouse.reporting.steps.time.monotonic", lambda: next(clock))

    steps = Steps(lines.append, 4, "tables")
    for name in "abcd":
        steps.done(f"gold    {name}: created")

    assert lines == [
        "gold    a: created",  # nobody asks how long quick work takes
        "gold    b: created (2 of 4 tables, about 60 s left)",
        "gold    c: created (3 of 4 tables, about 23 s left)",
        "gold    d: created",
    ]


def test_an_error_on_a_terminal_has_what_to_do_on_a_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = as_terminal(monkeypatch)

    say("shop: expected a broker, got none; start it", "error")
    say("warning: shop: 3 files are not whole")
    monkeypatch.setenv("NO_COLOR", "1")
    say("shop: expected a broker, got none; start it", "error")

    assert terminal.getvalue().splitlines() == [
        "\x1b[1;31merror: \x1b[0mshop: expected a broker, got none",
        "  → start it",
        "\x1b[33mwarning: \x1b[0mshop: 3 files are not whole",
        "shop: expected a broker, got none; start it",
    ]
    assert coloured("error: ", "no fix", "error") == "\x1b[1;31merror: \x1b[0mno fix"
