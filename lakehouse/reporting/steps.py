"""Lines of progress of work that has a known number of parts."""

import threading
import time
from collections.abc import Callable

from lakehouse.reporting.text.values import QUICK, duration, number


class Steps:
    """Writes one line for each part that is done; of work that is not quick, with how many of the parts are
    done, and how long the others take. Several threads may tell.

    >>> Steps(print, 120, "tables").done("gold    shop.orders: created")
    gold    shop.orders: created
    """

    def __init__(self, progress: Callable[[str], None], count: int, word: str) -> None:
        self.progress, self.count, self.word = progress, count, word
        self._done, self._begun, self._lock = 0, time.monotonic(), threading.Lock()

    def done(self, text: str) -> None:
        """One more part is done; `text` says which."""
        with self._lock:
            self._done += 1
            done, took = self._done, time.monotonic() - self._begun
        self.progress(text + self.rest(done, took))

    def rest(self, done: int, seconds: float) -> str:
        """What a line says of the parts: nothing of quick work, or of the last part."""
        if seconds < QUICK or done >= self.count:
            return ""
        left = duration(max(1, (self.count - done) * seconds / done))
        return f" ({number(done)} of {number(self.count)} {self.word}, about {left} left)"
