"""Signs of life of long work, on a terminal and in a log."""

import io
import time

import pytest

from lakehouse.reporting import heartbeat as module
from lakehouse.reporting.heartbeat import heartbeat, still
from lakehouse.reporting.logs import coloured, say


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
    assert still("", 61) == "still at work, 61 s after the begin"
    assert (module.ON_A_TERMINAL, module.IN_A_LOG) == (1.0, 60.0)


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
