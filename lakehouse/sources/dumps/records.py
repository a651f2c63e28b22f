"""What a dump holds, as its readers give it: its position, and tables with their rows."""

from collections.abc import Sequence
from typing import NamedTuple

from lakehouse.lineage import Name
from lakehouse.schema import TableSchema
from lakehouse.sources.dumps.tuples import Row

# below it a number is an offset in a binlog file, at or above it a TSO (of 1970's first hours)
LEAST_TSO = 1 << 40
# engines whose rows are of the moment of the transaction that reads them
TRANSACTIONAL = frozenset({"innodb", "rocksdb", "tidb"})


class Tso(NamedTuple):
    """The snapshot of a TiDB: it has every commit up to this one."""

    tso: int

    def __str__(self) -> str:
        return f"TSO {self.tso}"


class BinlogPlace(NamedTuple):
    """A place in a binlog: the snapshot has every event before it, and none behind."""

    file: str
    offset: int

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


class TopicPlace(NamedTuple):
    """An offset of the topic that a feed in order of arrival comes in: the snapshot has every message below
    it. `time` is the server's clock, in milliseconds.
    """

    topic: str
    partition: int
    offset: int
    time: int = 0

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} offset {self.offset}"


Place = Tso | BinlogPlace | TopicPlace


class TableBegins(NamedTuple):
    """A table. `create` is its CREATE TABLE as the server printed it, `schema` what that says."""

    name: Name
    create: str
    schema: TableSchema


class Rows(NamedTuple):
    """Some rows of the table that began last, as the server's own text. `charset` is that of text in them
    (None: each column's own), `zone` that of TIMESTAMP (None: the file does not say).
    """

    columns: tuple[str, ...]
    rows: Sequence[Row]
    charset: str | None
    zone: str | None


class TableEnds(NamedTuple):
    """All rows of the table that began last have been given. `left_out`: it may have some, the dump does not
    have them. `untold`: it has none here, and the dump does not say whether they were left out.
    """

    rows: int
    left_out: bool = False
    untold: bool = False


DumpEvent = TableBegins | Rows | TableEnds
