"""What a comparison found, as it is kept and printed: ops.<source>_differences, and a record of the ops
log.
"""

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lakehouse.ops.records.operators import Verified, VerifiedTable
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.session import get_session
from lakehouse.spark.verification.looks import Compared
from lakehouse.spark.verification.run import TableResult, verify
from lakehouse.verification.verdict import CHANGED, COLUMNS, DIFFERENT, UNDECIDED, Found

# differences that the command prints of one table; the table has them all
SHOWN = 20
_TEXTS = pa.map_(pa.string(), pa.string())
SCHEMA = pa.schema(
    [
        ("checked_at", pa.timestamp("us", "UTC")),
        ("database", pa.string()),
        ("table", pa.string()),
        ("verdict", pa.string()),
        ("kind", pa.string()),
        ("key_hash", pa.string()),
        ("columns", pa.list_(pa.string())),
        ("gold_at", pa.string()),
        ("source_at", pa.string()),
        ("gold_values", _TEXTS),
        ("source_values", _TEXTS),
    ]
)


def differences_table(source: str) -> str:
    """The table of ops that keeps the differences of a source."""
    return f"{source}_differences"


def compared(asked: Compared) -> list[TableResult]:
    """Compare a source's tables, and keep what was found."""
    source, results = asked.source, verify(asked)
    keep(OpsLog(get_session(), source.lake, source.name).load(), results, asked.options.sample)
    return results


def keep(log: OpsLog, results: Sequence[TableResult], sample: float) -> None:
    """Append what was found: the differences, and the record that the tables were compared."""
    now = datetime.fromtimestamp(int(time.time()), UTC)
    rows = [row for result in results for row in _rows(result, now)]
    if rows:
        frame = log.spark.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA))
        log.lake.append(frame, "ops", differences_table(log.source))
    tables = tuple(
        VerifiedTable(*one.name, different=len(one.different) + one.more, undecided=len(one.undecided))
        for one in results
        if one.compared
    )
    if tables:
        log.add(Verified(tables=tables, sample=sample))


def _rows(result: TableResult, now: datetime) -> Iterator[dict[str, Any]]:
    for verdict, found in ((DIFFERENT, result.different), (UNDECIDED, result.undecided)):
        for one in found:
            yield {
                "checked_at": now,
                "database": result.name[0],
                "table": result.name[1],
                "verdict": verdict,
                **_plain(one),
                "gold_at": result.gold_at,
                "source_at": result.source_at,
                "gold_values": _texts(one, one.gold),
                "source_values": _texts(one, one.source),
            }


def _plain(one: Found) -> dict[str, Any]:
    columns = list(one.columns) if one.kind in (CHANGED, COLUMNS) else []
    return {"kind": one.kind, "key_hash": one.key or None, "columns": columns}


def _texts(one: Found, texts: Sequence[str | None]) -> list[tuple[str, str | None]] | None:
    return list(zip(one.columns, texts, strict=True)) if texts else None


def entry(result: TableResult) -> dict[str, Any]:
    """A table's result, as the command prints it."""
    name = ".".join(result.name)
    if not result.compared:
        return {"table": name, "compared": False, "why": result.why}
    return {
        "table": name,
        "compared": True,
        "rows": result.rows,
        "share": result.share,
        "different": len(result.different) + result.more,
        "undecided": len(result.undecided),
        "why": result.why,
        "columns_not_compared": list(result.left_out),
        "gold_at": result.gold_at,
        "source_at": result.source_at,
        "differences": [_plain(one) for one in result.different[:SHOWN]],
    }
