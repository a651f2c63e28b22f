"""Signs of life of long work between its lines of progress: on a terminal how long the last line is ago, each
second; in a log one line a minute.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lakehouse.reporting.logs import LAST, is_json, is_terminal, say
from lakehouse.reporting.text.values import duration

# Seconds between signs of life.
ON_A_TERMINAL, IN_A_LOG = 1.0, 60.0


@contextmanager
def heartbeat(seconds: float | None = None) -> Iterator[None]:
    """Show signs of life until the work is done. Not for runs that wait for input: they are idle for days."""
    draws = is_terminal(sys.stderr) and not is_json()
    period = seconds or (ON_A_TERMINAL if draws else IN_A_LOG)
    ended = threading.Event()
    thread = threading.Thread(target=_beat, args=(ended, period, draws), name="heartbeat", daemon=True)
    LAST.at = time.monotonic()
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        with LAST.lock:
            LAST.wipe()


def _beat(ended: threading.Event, period: float, draws: bool) -> None:
    """One sign each period in which no line was written. A log's sign is a line, but not one of progress: the
    time goes on to count from the line before.
    """
    last, since = LAST.text, LAST.at
    while not ended.wait(period):
        with LAST.lock:
            if LAST.at > since and not LAST.text.startswith(STILL):
                last, since = LAST.text, LAST.at
            quiet = time.monotonic() - LAST.at
            if quiet < period:
                continue
            took = time.monotonic() - since
            if draws:
                print(f"\r\x1b[K  {duration(round(took))} …", end="", file=sys.stderr, flush=True)
                LAST.is_marked = True
            else:
                say(still(last, took))


STILL = "still at work, "


def still(last: str, seconds: float) -> str:
    """A log's sign of life: how long the last line is ago, and which it was."""
    return (
        f"{STILL}{duration(seconds)} after: {last}" if last else f"{STILL}{duration(seconds)} after the begin"
    )
