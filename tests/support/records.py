"""Records as gold writes them, and an ops log of such records, without a lake or a session."""

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from lakehouse.events import Position
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.ops.records.record import Record

if TYPE_CHECKING:
    from lakehouse.spark.ops.log import OpsLog

_ENTRY = TableEntry(
    lineage="t@1",
    database="d",
    table="t",
    gold="d__t",
    version=0,
    shape="",
    state="exact",
    since=None,
    notes=(),
    names=(("d", "t"),),
)


def table_entry(**more: Any) -> TableEntry:
    """The entry of the table d.t, which is exact and published as version 0, but for the fields given."""
    return replace(_ENTRY, **more)


def manifest(*tables: TableEntry, batch: int = 1, watermark: Position = (0, 0, 0, 0, 0, 0)) -> Manifest:
    """Gold's state with these tables."""
    return Manifest(batch=batch, watermark=watermark, consistency="resolved", tables=tables)


def log_of(*records: Record) -> "OpsLog":
    """A log that has read these records. Needs Spark's package, but no session."""
    from lakehouse.spark.lake import Lake
    from lakehouse.spark.ops.log import OpsLog
    from lakehouse.spark.ops.logged import Logged

    no_session: Any = None
    stored = [Logged.of(one, n, n, "{}") for n, one in enumerate(records, 1)]
    return OpsLog(no_session, Lake("nowhere"), "shop", records=stored)
