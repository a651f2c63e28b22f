"""What the server's pages show, as records, and who reads it: the pages know nothing of Spark.

Every reading is bounded: rows, changes, letters and manifests come a page at a time, bytes up to a size.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from lakehouse.errors import LakehouseError
from lakehouse.events import Position

Observed = dict[str, Any]
Image = Mapping[str, Any]


class NotThere(LakehouseError):
    """What an address asks for is not in the lake."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record is in bronze."""

    topic: str
    incarnation: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Statement:
    """A DDL statement, where it is in force from, and what it did to rows, by the names of its effects."""

    position: Position
    table: str
    ddl: str | None
    effects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableRows:
    """A gold table: its entry in the last manifest, and its first rows. `key` are the columns that find a
    row's history; () where gold does not have the source's key as it is. `more`: there are more rows.
    """

    source: str
    order: str
    name: str
    gold: str
    version: int
    state: str
    since: Position | None
    why: str | None
    notes: tuple[str, ...]
    names: tuple[str, ...]
    key: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[Image, ...]
    more: bool
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class RowChange:
    """A change of a row of a source table, its images by the column names of its time, those of its key among
    them; masked columns masked, excluded ones left out.
    """

    position: Position
    committed: int | None
    table: str
    key: tuple[str, ...]
    op: str
    before: Image | None
    after: Image | None
    flags: tuple[str, ...]
    origin: str
    batch: int


class After(NamedTuple):
    """Where a page of changes begins: at a position, behind so many of the changes there. All changes of a
    transaction may have the same one.
    """

    position: Position
    shown: int


@dataclass(frozen=True, slots=True)
class RowHistory:
    """A page of a row's changes `after` a place, oldest first; `more`: others follow the last one."""

    source: str
    order: str
    table: str
    key: tuple[tuple[str, str], ...]
    after: After | None
    changes: tuple[RowChange, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class ChangesBetween:
    """A page of a table's changes between two manifests, by their numbers, `after` a place, oldest first;
    `more`: others follow the last one.
    """

    source: str
    order: str
    table: str
    first: int
    second: int
    after: After | None
    changes: tuple[RowChange, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter without its bytes."""

    code: str
    message: str
    table: str
    origin: str
    place: Place
    is_open: bool


@dataclass(frozen=True, slots=True)
class Letters:
    """A page of a source's dead letters, newest first; the first page is 0."""

    source: str
    code: str | None
    page: int
    letters: tuple[Letter, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Bytes:
    """The beginning of some bytes, and how many there are."""

    beginning: bytes
    size: int


@dataclass(frozen=True, slots=True)
class LetterBytes:
    """The record of a dead letter, as bronze has it; `letters` are all of that record."""

    source: str
    origin: str
    letters: tuple[Letter, ...]
    timestamp: int | None
    key: Bytes | None
    value: Bytes | None
    headers: tuple[tuple[str, Bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Published:
    """A manifest: its number in the ops log, when it was written, and how many tables are in which state."""

    number: int
    at: int
    batch: int
    watermark: Position
    states: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Manifests:
    """A page of a source's manifests, newest first; `more`: there are older ones."""

    source: str
    order: str
    manifests: tuple[Published, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class TableChange:
    """What is different in a table between two manifests. A state or version is None where the table is in
    one of them alone. `changes`: how many silver has got of it in between.
    """

    table: str
    states: tuple[str | None, str | None]
    versions: tuple[int | None, int | None]
    why: str
    changes: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Two manifests of a source, what is different, and the first statements in between; `more`: there are
    more of these. `same`: how many tables are as they were.
    """

    source: str
    order: str
    first: Published
    second: Published
    tables: tuple[TableChange, ...]
    same: int
    statements: tuple[Statement, ...]
    more: bool


class Readings(Protocol):
    """Who reads the lake for the pages. NotThere where it has no such source, table, letter or manifest."""

    def observed(self) -> list[Observed]:
        """Every source, as the report shows it."""

    def table(self, source: str, table: str) -> TableRows:
        """A gold table."""

    def row(self, source: str, table: str, key: tuple[str, ...], after: After | None) -> RowHistory:
        """A row's changes behind a place, by the text of its key's values."""

    def letters(self, source: str, code: str | None, page: int) -> Letters:
        """A source's dead letters."""

    def letter(self, source: str, place: Place) -> LetterBytes:
        """The bytes of a record that is a dead letter; of no other."""

    def manifests(self, source: str, before: int | None) -> Manifests:
        """A source's manifests, those before a number."""

    def difference(self, source: str, first: int, second: int) -> Difference:
        """What is different between two manifests, by their numbers."""

    def changes(self, source: str, table: str, ends: tuple[int, int], after: After | None) -> ChangesBetween:
        """A table's changes between two manifests, those behind a place."""
