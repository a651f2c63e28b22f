"""Appends of the driver's rows to a plain Delta table on this machine's own disk, without Spark. Delta's own
append of one row takes 0.2 CPU seconds, and 0.6 with a transaction's id, which it looks up in all of its log.

What is written is what Delta would write: a Parquet file, the commit that adds it, and the checksum file of
the new version. It is written behind a version whose own checksum file tells all that has to be known, and
not where Delta would make a checkpoint: there, and of every table that is not plain, Delta itself appends.
Format: PROTOCOL.md of delta-io/delta, "Delta Log Entries", "Add File", "Transaction Identifiers", "Per-file
Statistics" and "Version Checksum File".
"""

import json
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakehouse import __version__
from lakehouse.spark.commit_files import newest_commits
from lakehouse.spark.plain.files import Added, discard, rows_of, write_file

Txn = tuple[str, int]
_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
# all that is in the checksum file of a plain table
_MEMBERS = {
    "txnId",
    "tableSizeBytes",
    "numFiles",
    "numMetadata",
    "numProtocol",
    "setTransactions",
    "domainMetadata",
    "metadata",
    "protocol",
    # of a table with deletion vectors
    "numDeletedRecordsOpt",
    "numDeletionVectorsOpt",
    "deletedRecordCountsHistogramOpt",
}
INDEXED, INTERVAL = "delta.dataSkippingStatsColumns", "delta.checkpointInterval"
# properties that ask nothing else of a writer
PROPERTIES = {
    INDEXED,
    INTERVAL,
    "delta.appendOnly",
    "delta.logRetentionDuration",
    "delta.deletedFileRetentionDuration",
}
# Delta keeps transactions in the checksum file up to this number
_MOST_TRANSACTIONS = 100


class Version(NamedTuple):
    """The newest version of a table, and what its checksum file tells; below 0 where there is none yet."""

    number: int
    told: dict[str, Any]

    @classmethod
    def none(cls, told: dict[str, Any]) -> "Version":
        """What is there before a table's first version, which will have this metadata and protocol."""
        empty = {"tableSizeBytes": 0, "numFiles": 0, "numMetadata": 1, "numProtocol": 1}
        return cls(-1, {**empty, "setTransactions": [], "domainMetadata": [], **told})

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.told["metadata"].get("configuration", {}))

    @property
    def is_due(self) -> bool:
        """Whether Delta is to make the next version, with a checkpoint."""
        return (self.number + 1) % int(self.properties.get(INTERVAL, 10)) == 0

    def appended(self, app: str) -> int:
        """The version of an application id's last transaction."""
        found = [one["version"] for one in self.told["setTransactions"] if one["appId"] == app]
        return found[0] if found else -1


def append_plain(table: Path, rows: pa.Table, txn: Txn | None = None, mark: str | None = None) -> bool:
    """Append rows to the table in a folder, with `mark` as the commit's userMetadata; with `txn` only if its
    version is above the last one of its application id, as Delta does. Whoever may commit to the table at the
    same time is kept out by the caller. False where nothing was done, and Delta has to do it.
    """
    newest = _plain_version(table, rows.schema)
    if newest is None:
        return False
    if txn is not None and newest.appended(txn[0]) >= txn[1]:
        return True
    with suppress(OSError):
        added = write_file(table, rows, newest.properties.get(INDEXED))
        if commit(table, newest, _appending([added], mark), [added], moved=_moved(txn)):
            return True
        discard(table, added["path"])
    return False


def append_files(table: Path, added: Sequence[Added], schema: StructType, txn: Txn) -> bool:
    """Append files that lie in the table's folder already, of these columns, as `append_plain` does. False
    where nothing was done; files that no commit has added then are the caller's.
    """
    newest = _plain_version(table, to_arrow_schema(schema))
    if newest is None:
        return False
    if newest.appended(txn[0]) >= txn[1]:
        discard(table, *(one["path"] for one in added))
        return True
    return commit(table, newest, _appending(added), added, moved=_moved(txn))


def create_of_rows(
    table: Path,
    rows: pa.Table,
    schema: StructType,
    *,
    txn: Txn | None,
    mark: str | None,
    properties: Mapping[str, str],
) -> bool:
    """Make a plain table of rows in a folder that has none, as `append_plain` appends. False where nothing
    was done, and Delta has to do it.
    """
    with suppress(OSError):
        table.mkdir(parents=True, exist_ok=True)
        added = write_file(table, rows, properties.get(INDEXED))
        if create_of_files(table, [added], schema, txn=txn, mark=mark, properties=properties):
            return True
        discard(table, added["path"])
    return False


def create_of_files(
    table: Path,
    added: Sequence[Added],
    schema: StructType,
    *,
    txn: Txn | None,
    mark: str | None = None,
    properties: Mapping[str, str],
) -> bool:
    """Make a plain table of files that lie in its folder already. False where nothing was done."""
    is_plain = all(field.nullable and not field.metadata for field in schema.fields)
    if not is_plain or not properties.keys() <= PROPERTIES:
        return False
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema.json(),
        "partitionColumns": [],
        "configuration": dict(properties),
        "createdTime": int(time.time() * 1000),
    }
    newest = Version.none({"metadata": metadata, "protocol": _PROTOCOL})
    with suppress(OSError):
        (table / "_delta_log").mkdir(exist_ok=True)
        return commit(table, newest, _appending(added, mark), added, moved=_moved(txn))
    return False


def is_plain(table: Path, schema: StructType) -> bool:
    """Whether rows of these columns can be appended to the table without Spark now."""
    return _plain_version(table, to_arrow_schema(schema)) is not None


def _plain_version(table: Path, schema: pa.Schema) -> Version | None:
    """The newest version of a plain table that has these columns, if Delta need not make the next one."""
    newest = newest_version(table)
    if newest is None or newest.told["protocol"] != _PROTOCOL or not newest.properties.keys() <= PROPERTIES:
        return None
    return newest if _is_schema(newest, schema) else None


def _appending(added: Sequence[Added], mark: str | None = None) -> dict[str, Any]:
    return {
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "isBlindAppend": True,
        "operationMetrics": {"numFiles": str(len(added)), "numOutputRows": str(rows_of(added))},
        **({} if mark is None else {"userMetadata": mark}),
    }


def _moved(txn: Txn | None) -> list[dict[str, Any]]:
    return [] if txn is None else [{"appId": txn[0], "version": txn[1]}]


def commit(
    table: Path,
    newest: Version,
    info: dict[str, Any],
    added: Sequence[Added],
    *,
    moved: Sequence[dict[str, Any]] = (),
    removed: Sequence[dict[str, Any]] = (),
    told: Mapping[str, Any] = MappingProxyType({}),
) -> bool:
    """Make the version behind the newest one, or a table's first: with files that lie in its folder, with
    transactions that have moved on, and without the files that are removed. `told` is what the checksum file
    says besides. False where it was not made.
    """
    now, txn_id = int(time.time() * 1000), str(uuid.uuid4())
    is_new = newest.number < 0
    read = {} if is_new else {"readVersion": newest.number}
    about = {"timestamp": now, **info, **read, "isolationLevel": "Serializable"}
    about |= {"engineInfo": f"lakehouse/{__version__}", "txnId": txn_id}
    made = {"metaData": newest.told["metadata"], "protocol": newest.told["protocol"]} if is_new else {}
    moved = [{**one, "lastUpdated": now} for one in moved]
    actions = [{"commitInfo": about}, *({action: one} for action, one in made.items())]
    actions += [*({"txn": one} for one in moved), *({"add": one} for one in added)]
    actions += [{"remove": _removal(one, now)} for one in removed]
    try:
        if not _put(_log_file(table, newest.number + 1, "json"), actions):
            return False
    except OSError:  # a full disk, a file system without links: Delta's own error is the one to show
        return False
    after = _checksum(newest, added, moved, removed) | dict(told)
    with suppress(OSError):  # the commit stands; without this file Delta makes the next one
        _put(_log_file(table, newest.number + 1, "crc"), [{**after, "txnId": txn_id}])
    return True


def _removal(added: dict[str, Any], at: int) -> dict[str, Any]:
    told = {"path": added["path"], "deletionTimestamp": at, "dataChange": True}
    vector = {name: value for name, value in (added.get("deletionVector") or {}).items() if value is not None}
    marks = {"deletionVector": vector} if vector else {}
    return {**told, "extendedFileMetadata": True, "partitionValues": {}, "size": added["size"], **marks}


def newest_version(table: Path, *, due: bool = False) -> Version | None:
    """The newest version; None where its checksum file does not tell all of it, or, but with `due`, Delta is
    to make the next one.
    """
    try:
        number, _, info = next(newest_commits(table))
        told = json.loads(_log_file(table, number, "crc").read_text(encoding="utf-8"))
        is_whole = (
            set(told) <= _MEMBERS
            # not of a commit that another process has written over, or of a log that was put back since
            and told["txnId"] == info["txnId"]
            and not told["domainMetadata"]
            and not told["metadata"]["partitionColumns"]
            and len(told["setTransactions"]) < _MOST_TRANSACTIONS
        )
        newest = Version(number, told)
        return newest if is_whole and (due or not newest.is_due) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        # no table, a log that is being cleaned up, a file that is half there or lacks what it may lack
        return None


def _is_schema(newest: Version, given: pa.Schema) -> bool:
    """Whether the table has these columns, all of which may be NULL."""
    schema = StructType.fromJson(json.loads(newest.told["metadata"]["schemaString"]))
    is_plain = all(field.nullable and not field.metadata for field in schema.fields)
    return is_plain and to_arrow_schema(schema).equals(given)


def _checksum(
    newest: Version,
    added: Sequence[dict[str, Any]],
    moved: Sequence[dict[str, Any]],
    removed: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    ids = {one["appId"] for one in moved}
    others = [one for one in newest.told["setTransactions"] if one["appId"] not in ids]
    size = sum(one["size"] for one in added) - sum(one["size"] for one in removed)
    return {
        **newest.told,
        "tableSizeBytes": newest.told["tableSizeBytes"] + size,
        "numFiles": newest.told["numFiles"] + len(added) - len(removed),
        "setTransactions": [*others, *moved],
    }


def _log_file(table: Path, version: int, suffix: str) -> Path:
    return table / "_delta_log" / f"{version:020d}.{suffix}"


def _put(path: Path, lines: list[dict[str, Any]]) -> bool:
    """Write a file as a whole, unless there is one; returns whether it was written."""
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        # Hadoop's checksum of a file that had this name, in a log that was put back from a copy since
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        try:
            os.link(temporary, path)
        except OSError as error:
            # a network mount may say so of its own link, where the reply was lost
            is_linked = temporary.stat().st_nlink > 1
            if not is_linked and not isinstance(error, FileExistsError):
                raise
            return is_linked
        return True
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
