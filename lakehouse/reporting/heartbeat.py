"""Signs of life of long work between its lines of progress: on a terminal how long the last line is ago, each
second; in a log one line a minute. Both say how far the work is, where something tells.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lakehouse.reporting.logs import LAST, is_json, is_terminal, say
from lakehouse.reporting.text.values import duration

# Seconds between signs of life.
ON_A_TERMINAL, IN_A_LOG = 1.0, 60.0


@contextmanager
def heartbeat(seconds: float | None = None, how_far: Callable[[], str] = str) -> Iterator[None]:
    """Show signs of life until the work is done; `how_far` says how much of it is, or nothing. Not for runs
    that wait for input: they are idle for days.
    """
    draws = is_terminal(sys.stderr) and not is_json()
    period = seconds or (ON_A_TERMINAL if draws else IN_A_LOG)
    ended = threading.Event()
    thread = threading.Thread(target=_beat, args=(ended, period, draws, how_far), daemon=True)
    LAST.at = time.monotonic()
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        with LAST.lock:
            LAST.wipe()


def _beat(ended: threading.Event, period: float, draws: bool, how_far: Callable[[], str]) -> None:
    """One sign each period in which no line was written. A log's sign is a line, but not one of progress: the
    time goes on to count from the line before.
    """
    last, since = LAST.text, LAST.at
    while not ended.wait(period):
        far = how_far() if time.monotonic() - LAST.at >= period else ""
        with LAST.lock:
            if LAST.at > since and not LAST.text.startswith(STILL):
                last, since = LAST.text, LAST.at
            quiet = time.monotonic() - LAST.at
            if quiet < period:
                continue
            took = time.monotonic() - since
            if draws:
                sign = "  ".join(filter(None, (f"  {duration(round(took))} …", far)))
                print(f"\r\x1b[K{sign}", end="", file=sys.stderr, flush=True)
                LAST.is_marked = True
            else:
                say(still(last, took, far))


STILL = "still at work, "
# characters of the last line: a warning is a paragraph, which each sign would tell again
QUOTED = 80


def still(last: str, seconds: float, far: str = "") -> str:
    """A log's sign of life: how far the work is, how long the last line is ago, and which it was."""
    line = last if len(last) <= QUOTED else last[: QUOTED - 1] + "…"
    after = f"{duration(seconds)} after: {line}" if last else f"{duration(seconds)} after the begin"
    return STILL + (f"{far}, " if far else "") + after
