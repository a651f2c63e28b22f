"""Rows as digests: of a key, of the cells that the server can checksum, of those that it can't; and the sums
of a bucket of rows.

    bucket   rows are dealt to buckets by their key, on both sides alike: a bucket is what is summed up, and
             what is read row by row where its sums differ
    sums     how many rows, and two sums of 60 bits each of every row's digest: in any order the same, and
             rows that are there twice do not cancel each other out
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from lakehouse.sources.server_sql import table_name
from lakehouse.verification.cells import NULL, Cell, checksum_sql, digest, read_sql

# which columns sums are of: those that the server sums up, and those that are read
CHECKSUMMED, READ = 0, 1
# buckets that a statement lists; of more of them all rows are read
_LISTED = 2000
_BITS = 15  # hexadecimal digits of a sum's part
Canonical = Sequence[Any]


class Sums(NamedTuple):
    """The rows of a bucket."""

    rows: int = 0
    first: int = 0
    second: int = 0

    def plus(self, row: str) -> "Sums":
        """With one more row, by its digest; "" is none."""
        if not row:
            return self._replace(rows=self.rows + 1)
        first, second = int(row[:_BITS], 16), int(row[_BITS : 2 * _BITS], 16)
        return Sums(self.rows + 1, self.first + first, self.second + second)


@dataclass(frozen=True)
class Comparison:
    """How a table's rows are compared: its cells, of which `keys` (places among them) identify a row (none:
    the whole row does), in how many buckets, of which a `sample` is taken: the first, and how many. With
    `values`, differences have texts of cells. Canonical rows have one value a cell, in the order of the
    cells.
    """

    database: str
    table: str
    cells: tuple[Cell, ...]
    keys: tuple[int, ...]
    buckets: int = 1
    sample: tuple[int, int] | None = None
    values: bool = False

    @property
    def share(self) -> float:
        """The share of the buckets that are compared."""
        return 1.0 if self.sample is None else self.sample[1] / self.buckets

    @cached_property
    def checksummed(self) -> tuple[int, ...]:
        """The places of the cells that the server can checksum."""
        return tuple(place for place, cell in enumerate(self.cells) if cell.checksum is not None)

    @cached_property
    def read(self) -> tuple[int, ...]:
        """The places of the cells whose values have to be read."""
        return tuple(place for place in range(len(self.cells)) if place not in self.checksummed)

    @cached_property
    def dealt(self) -> tuple[int, ...]:
        """The places of the cells by which rows are dealt to buckets."""
        return tuple(place for place in self.keys or self.checksummed if place in self.checksummed)

    @cached_property
    def _read_together(self) -> tuple[int, ...]:
        """The places of the cells that are digested with those that are read: the key, which links them to
        what the server sums up of the row; all cells, where it has not all of a key to sum up.
        """
        if self.keys and set(self.keys) <= set(self.checksummed):
            return (*self.keys, *self.read)
        return tuple(range(len(self.cells)))

    # --- this side

    @cached_property
    def _checksums(self) -> Mapping[int, Callable[[Any], str]]:
        found = {place: self.cells[place].checksum for place in self.checksummed}
        return {place: text for place, text in found.items() if text is not None}

    @cached_property
    def _compared(self) -> tuple[Callable[[Any], str], ...]:
        return tuple(cell.compared for cell in self.cells)

    def _joined(self, row: Canonical, places: Sequence[int]) -> bytes:
        texts = (NULL if row[place] is None else self._checksums[place](row[place]) for place in places)
        return ",".join(texts).encode("utf-8", "surrogatepass")

    def bucket(self, row: Canonical) -> int:
        """The bucket of a row."""
        if not self.dealt or self.buckets == 1:
            return 0
        return int(digest(self._joined(row, self.dealt))[:8], 16) % self.buckets

    def has(self, bucket: int) -> bool:
        """Whether the bucket is in the sample."""
        return self.sample is None or 0 <= bucket - self.sample[0] < self.sample[1]

    def checksum(self, row: Canonical) -> str:
        """The digest of the cells that the server can checksum."""
        return digest(self._joined(row, self.checksummed))

    def texts(self, row: Canonical) -> list[str | None]:
        """The compared texts of all cells."""
        return [
            None if value is None else text(value) for text, value in zip(self._compared, row, strict=True)
        ]

    def read_digest(self, row: Canonical) -> str:
        """The digest of the cells that are read, together with what tells the row."""
        texts = self.texts(row)
        return _digest([texts[place] for place in self._read_together])

    def key(self, row: Canonical) -> str:
        """The key's hash: MD5 of its compared texts as a JSON array, in the order of `keys`."""
        texts = self.texts(row)
        return key_hash([texts[place] for place in self.keys] if self.keys else texts)

    def key_of(self, values: Canonical) -> str:
        """The same, by the canonical values of the key's cells alone."""
        texts = (self._compared[place] for place in self.keys)
        return key_hash(
            [None if value is None else text(value) for text, value in zip(texts, values, strict=True)]
        )

    @property
    def of_keys(self) -> "Comparison":
        """The comparison of the key's cells alone."""
        cells = tuple(self.cells[place] for place in self.keys)
        return replace(self, cells=cells, keys=tuple(range(len(cells))))

    def shown(self, row: Canonical) -> list[str | None]:
        """What is kept of each cell: a digest, or with `values` its text."""
        texts = self.texts(row)
        return texts if self.values else [None if text is None else _digest([text]) for text in texts]

    # --- the server

    @property
    def _table(self) -> str:
        return table_name((self.database, self.table))

    @property
    def bucket_sql(self) -> str:
        """The bucket of a row, as the server computes it."""
        if not self.dealt or self.buckets == 1:
            return "0"
        hashed = f"CONV(LEFT(MD5({self._concat(self.dealt)}), 8), 16, 10)"
        return f"MOD(CAST({hashed} AS UNSIGNED), {self.buckets})"

    def _concat(self, places: Sequence[int]) -> str:
        return f"CONCAT_WS(',', {', '.join(checksum_sql(self.cells[place]) for place in places)})"

    def _where(self, where: str) -> str:
        if self.sample is None:
            return where
        first, number = self.sample
        return f"({where}) AND {self.bucket_sql} BETWEEN {first} AND {first + number - 1}"

    def sums_sql(self, where: str) -> str:
        """The sums of the rows of a condition, bucket by bucket."""
        hashed = f"MD5({self._concat(self.checksummed)})" if self.checksummed else "''"
        parts = (f"SUBSTRING(d, {start}, {_BITS})" for start in (1, 1 + _BITS))
        sums = (f"SUM(CAST(CONV({part}, 16, 10) AS UNSIGNED))" for part in parts)
        chosen = ", ".join(sums) if self.checksummed else "0, 0"
        rows = f"SELECT {self.bucket_sql} AS b, {hashed} AS d FROM {self._table} WHERE {self._where(where)}"
        return f"SELECT b, COUNT(*), {chosen} FROM ({rows}) AS t GROUP BY b"

    def rows_sql(self, where: str, buckets: Sequence[int] | None = None) -> str:
        """All cells of the rows of a condition; those of some buckets alone."""
        cells = ", ".join(read_sql(cell) for cell in self.cells)
        if buckets is None or len(buckets) > _LISTED:
            return f"SELECT {cells} FROM {self._table} WHERE {self._where(where)}"
        return f"SELECT {cells} FROM {self._table} WHERE ({where}) AND {self.in_buckets_sql(buckets)}"

    def in_buckets_sql(self, buckets: Sequence[int]) -> str:
        """The condition of the rows of some buckets; of very many of them, of all rows."""
        if len(buckets) > _LISTED:
            return "1 = 1"
        return f"{self.bucket_sql} IN ({', '.join(map(str, buckets))})"

    def read_sql(self, where: str) -> str:
        """The cells that have to be read, and those that tell the row; NULL for all others."""
        needed = {*self.dealt, *self._read_together}
        cells = (read_sql(cell) if place in needed else "NULL" for place, cell in enumerate(self.cells))
        return f"SELECT {', '.join(cells)} FROM {self._table} WHERE {self._where(where)}"


def key_hash(texts: Sequence[str | None]) -> str:
    """The hash of a key, by the compared texts of its values."""
    return _digest(texts)


def _digest(texts: Sequence[str | None]) -> str:
    return digest(json.dumps(list(texts), ensure_ascii=False).encode("utf-8", "surrogatepass"))
