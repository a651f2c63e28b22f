"""A record of an ops log as a process keeps it.

A log has up to 16 MiB of text, of which a run reads the last record of each kind, and of each batch a few
members. A continuous run keeps the log as long as it lives: it would hold several times that size if records
were kept as objects. So a record is read when somebody asks for it, old ones are packed when a pass is over,
and what is asked of every batch (its `gist`) is read without the rest.
"""

import zlib
from typing import Any

from lakehouse.ops.gist import Gist, decode_gist, gist_of
from lakehouse.ops.records.kinds import decode
from lakehouse.ops.records.record import Record

# texts of a few hundred characters gain nothing
_WORTH_PACKING = 512
# a done record of 200 tables becomes a thirtieth; the quickest level takes 0.1 ms for it
_LEVEL = 1


class Logged:
    """`size` is the length of the record's text."""

    __slots__ = ("_gist", "_is_read", "_packed", "_record", "_text", "at", "kind", "seq", "size")

    def __init__(self, seq: int, kind: str, at: int, text: str) -> None:
        self.seq, self.kind, self.at, self.size = seq, kind, at, len(text)
        self._text: str | None = text
        self._packed = b""
        self._record: Record | None = None
        self._is_read = False
        self._gist: Gist | None = None

    @classmethod
    def of(cls, record: Record, seq: int, at: int, text: str) -> "Logged":
        """A record that this process has made."""
        made = cls(seq, record.kind, at, text)
        made._record, made._is_read = record, True
        return made

    @property
    def text(self) -> str:
        return zlib.decompress(self._packed).decode() if self._text is None else self._text

    @property
    def record(self) -> Record | None:
        """The record; None for a kind that only a newer lakehouse knows. LakehouseError where it is none."""
        if not self._is_read:
            self._record, self._is_read = decode(self.kind, self.text), True
        return self._record

    @property
    def gist(self) -> Gist:
        """Of a batch's plan or done record: what is asked of every batch."""
        if self._gist is None:
            made = self._record
            self._gist = decode_gist(self.kind, self.text) if made is None else gist_of(made)
        return self._gist

    @property
    def held(self) -> int:
        """How many bytes of text it holds, packed or not; none of the record's own."""
        return len(self._packed) if self._text is None else len(self._text)

    @property
    def is_read(self) -> bool:
        """Whether it holds the record as an object."""
        return self._is_read

    def forget(self) -> None:
        """Keep the text alone, packed."""
        self._record, self._is_read = None, False
        if self._text is not None and len(self._text) >= _WORTH_PACKING:
            self._packed, self._text = zlib.compress(self._text.encode(), _LEVEL), None

    @property
    def stored(self) -> tuple[int, str, int, str]:
        """Its row of the table."""
        return self.seq, self.kind, self.at, self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Logged) and self.stored == other.stored

    def __repr__(self) -> str:
        return f"Logged{self.stored}"


def logged_rows(rows: list[dict[str, Any]]) -> list[Logged]:
    """Rows of the table, in the order of their numbers."""
    ordered = sorted(rows, key=lambda row: (row["seq"], row["at"]))
    return [Logged(row["seq"], row["kind"], row["at"], row["body"]) for row in ordered]
