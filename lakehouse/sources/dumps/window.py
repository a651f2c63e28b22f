"""A window on a stream of bytes, for readers that match patterns at its front."""

import re
import zlib
from typing import NoReturn, Protocol

from lakehouse.errors import LakehouseError

READ = 1 << 20


class Stream(Protocol):
    """What is read from: a file, or what decompresses one."""

    def read(self, size: int, /) -> bytes: ...


class Window:
    """The part of a stream that is in memory, and a place in it. `at` is the place in `buffer`, `offset` the
    one in the stream.
    """

    __slots__ = ("at", "buffer", "ended", "name", "start", "stream")

    def __init__(self, stream: Stream, name: str) -> None:
        self.stream, self.name = stream, name
        self.buffer, self.at, self.start, self.ended = b"", 0, 0, False

    @property
    def offset(self) -> int:
        return self.start + self.at

    def more(self) -> bool:
        """Read on; False at the end. What lies before the place is given up. As much is read as is held, so
        that a long value is not looked at again for each piece of it.
        """
        if self.ended:
            return False
        try:
            data = self.stream.read(max(READ, len(self.buffer) - self.at))
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise LakehouseError(
                f"{self.name}: byte {self.offset}: expected a whole compressed file, got one that is cut "
                f"short or damaged ({type(error).__name__}); copy it again, or dump again"
            ) from error
        self.buffer, self.start, self.at = self.buffer[self.at :] + data, self.offset, 0
        self.ended = not data
        return not self.ended

    def match(
        self, pattern: re.Pattern[bytes], unfinished: re.Pattern[bytes], expected: str
    ) -> re.Match[bytes]:
        """The match of `pattern` at the place, which moves behind it. What `unfinished` matches up to the end
        of the buffer may become one with more bytes; anything else is a LakehouseError.
        """
        while True:
            found = pattern.match(self.buffer, self.at)
            if found is not None:
                self.at = found.end()
                return found
            if unfinished.match(self.buffer, self.at) is None:
                self.fail(expected)
            if not self.more():
                self.fail(expected, got="the end of the file")

    def peek(self, size: int) -> bytes:
        """The next bytes, fewer only at the end of the stream."""
        while len(self.buffer) - self.at < size and self.more():
            pass
        return self.buffer[self.at : self.at + size]

    def fail(self, expected: str, got: str = "something else") -> NoReturn:
        """Raise a LakehouseError that names the file and the byte, never what stands there, which may be
        data.
        """
        raise LakehouseError(
            f"{self.name}: byte {self.offset}: expected {expected}, got {got}; the file may be cut short or "
            "edited: dump again"
        )
