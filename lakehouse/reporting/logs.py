"""What is said on stderr: lines for people, or one JSON object per line for log collectors.

LAKEHOUSE_LOG_FORMAT=json, or `lakehouse --log-format json`, asks for JSON: `{"ts", "level", "logger",
"message", "error"?}`. `error` is the type of an exception; tracebacks are shown as text alone, under --debug.
No message holds a row's value, in either form.
"""

import json
import logging
import os
import sys
from datetime import UTC, datetime

VARIABLE = "LAKEHOUSE_LOG_FORMAT"
FORMATS = ("text", "json")
_LEVELS = {"warning: ": "warning", "problem: ": "error"}


def is_json() -> bool:
    """Whether JSON is asked for."""
    return os.environ.get(VARIABLE, "").strip().lower() == "json"


def say(text: str, level: str = "info") -> None:
    """One line of progress, or an error's one sentence."""
    if is_json():
        begin = next((begin for begin in _LEVELS if text.startswith(begin)), "")
        text = line(_LEVELS.get(begin, level), "lakehouse", text.removeprefix(begin))
    print(text, file=sys.stderr, flush=True)


def line(level: str, logger: str, message: str, error: str | None = None) -> str:
    """One JSON line."""
    body = {
        "ts": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": level,
        "logger": logger,
        "message": message,
    }
    return json.dumps(body if error is None else {**body, "error": error}, ensure_ascii=False)


class JsonFormatter(logging.Formatter):
    """A record of Python's logging as one JSON line."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        return line(record.levelname.lower(), record.name, record.getMessage(), error)


def configure(level: int) -> None:
    """Send our own logging to stderr from this level on, in the form that is asked for."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter() if is_json() else logging.Formatter("%(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(handlers=[handler])
    logging.getLogger("lakehouse").setLevel(level)
