"""Progress and errors on stderr: lines for people, or one JSON object per line for log collectors.

LAKEHOUSE_LOG_FORMAT=json, or `lakehouse --log-format json`, selects JSON: `{"ts", "level", "logger",
"message", "error"?}`. `error` is the type of an exception; tracebacks are shown as text alone, under --debug.
No message holds a row's value, in either form.

On a terminal warnings and errors have a colour (not under NO_COLOR), and what an error says to do has a line
of its own.
"""

import json
import logging
import os
import sys
import threading
import time
from datetime import UTC, datetime
from typing import TextIO

VARIABLE = "LAKEHOUSE_LOG_FORMAT"
FORMATS = ("text", "json")
_LEVELS = {"warning: ": "warning", "problem: ": "error"}
_COLOURS = {"warning": "\x1b[33m", "error": "\x1b[1;31m"}
_PLAIN, _WIPE = "\x1b[0m", "\r\x1b[K"


class LastLine:
    """The last line of progress, when it was written, and whether a sign of life is drawn below it
    (lakehouse.reporting.heartbeat). Several threads of a run write lines.
    """

    def __init__(self) -> None:
        self.text, self.at, self.is_marked = "", time.monotonic(), False
        self.lock = threading.RLock()

    def wipe(self) -> None:
        """Remove the sign of life, so that another line can be written."""
        if self.is_marked:
            print(_WIPE, end="", file=sys.stderr, flush=True)
        self.is_marked = False


LAST = LastLine()


def is_terminal(out: TextIO) -> bool:
    """Whether lines of the file can be drawn over."""
    return out.isatty() and os.environ.get("TERM") != "dumb"


def is_json() -> bool:
    """Whether the log format is JSON."""
    return os.environ.get(VARIABLE, "").strip().lower() == "json"


def say(text: str, level: str = "info") -> None:
    """Write one line of progress, or an error as one sentence."""
    begin = next((begin for begin in _LEVELS if text.startswith(begin)), "")
    level, said = _LEVELS.get(begin, level), text.removeprefix(begin)
    if is_json():
        shown = line(level, "lakehouse", said)
    elif level in _COLOURS and has_colours(sys.stderr):
        shown = coloured(begin or f"{level}: ", said, level)
    else:
        shown = text
    with LAST.lock:
        LAST.wipe()
        print(shown, file=sys.stderr, flush=True)
        LAST.text, LAST.at = text, time.monotonic()


def coloured(begin: str, said: str, level: str) -> str:
    """A warning or an error for a terminal: what is wrong, and on a line of its own what to do, which is what
    follows the sentence's last semicolon.
    """
    what, semicolon, fix = said.rpartition("; ")
    shown = f"{what}\n  → {fix}" if semicolon else said
    return f"{_COLOURS[level]}{begin}{_PLAIN}{shown}"


def has_colours(out: TextIO) -> bool:
    """Whether text in colour may be written to the file."""
    return is_terminal(out) and not os.environ.get("NO_COLOR")


def line(level: str, logger: str, message: str, error: str | None = None) -> str:
    """One JSON line of the log."""
    body = {
        "ts": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": level,
        "logger": logger,
        "message": message,
    }
    return json.dumps(body if error is None else {**body, "error": error}, ensure_ascii=False)


class JsonFormatter(logging.Formatter):
    """Formats records of Python's logging as JSON lines."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        return line(record.levelname.lower(), record.name, record.getMessage(), error)


def configure(level: int) -> None:
    """Send the package's logging to stderr from this level on, in the chosen format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter() if is_json() else logging.Formatter("%(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(handlers=[handler])
    logging.getLogger("lakehouse").setLevel(level)
