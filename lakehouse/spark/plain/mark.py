"""MERGE of the driver's rows into a large gold table on this machine's own disk, without Spark: the rows that
are met (lakehouse/spark/plain/find.py) are marked in deletion vectors, and the new ones are another file.
Delta's own joins all files that may have rows of the keys three times.

Delta itself merges where they lie in too many rows to look at, and where the vectors that are there are not
known here.
"""

import json
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from lakehouse.spark.plain.append import Version, commit, newest_version
from lakehouse.spark.plain.deletion_vectors import counts_of, write_vectors
from lakehouse.spark.plain.files import Added, discard, write_file
from lakehouse.spark.plain.find import Hits, hits_of, is_of
from lakehouse.spark.plain.merge import Done, Prepared, Wanted, info_of, is_known, physical, prepared


def marked_version(table: Path) -> Version | None:
    """The newest version of the table in a folder, if rows can be merged so into it, as far as that tells."""
    newest = newest_version(table, due=True)
    return newest if newest is not None and is_known(newest, marks=True) else None


def merge_marked(table: Path, wanted: Wanted, known: Hits | None = None) -> Done | None:
    """Merge rows by key into the table in a folder, which has deletion vectors, as `merge_plain` does. None
    where nothing was done, and Delta has to do it. `known`: what has been found in a version of some keys.
    """
    found = prepared(table, wanted, marks=True) if wanted.marks else None
    if found is None:
        return None
    hits = known if known is not None and is_of(known, found) else hits_of(table, found)
    if hits is None or (hits.met.total() > len(hits.met) and not wanted.keyless):
        return None
    put = found.rows.filter(pa.array([not gone for gone in wanted.deleted], pa.bool_()))
    if not hits.rows and not put.num_rows:
        return Done(found.newest.number, 0, 0)
    with suppress(OSError):
        if _commit(table, found, hits, put=put, wanted=wanted):
            return Done(found.newest.number + 1, hits.met.total(), put.num_rows)
    return None


def _commit(table: Path, found: Prepared, hits: Hits, *, put: pa.Table, wanted: Wanted) -> bool:
    """Commit what is gone and what is new; files that no commit has added are deleted. Once a commit is being
    made they may be the table's, and stay where that breaks off.
    """
    info, files = info_of(hits.met, found, wanted, copied=0), hits.files
    lost = {path: rows | hits.gone[path] for path, rows in hits.rows.items()}
    with ExitStack() as made:
        added = []
        if put.num_rows:
            if not wanted.keyless:
                put = put.sort_by([(name, "ascending") for name in found.keys])
            added.append(write_file(table, physical(put, found.fields), None))
            made.callback(discard, table, added[0]["path"])
        left = {path: rows for path, rows in lost.items() if len(rows) < _records(files[path])}
        if left:
            name, vectors = write_vectors(table, left)
            made.callback(discard, table, name)
            added += [_marked_file(files[path], vectors[path]) for path in left]
        unused = made.pop_all()
    kept = [one for path, one in files.items() if path not in lost]
    removed = [files[path] for path in lost]
    if commit(table, found.newest, info, added, removed=removed, told=counts_of([*kept, *added])):
        return True
    unused.close()
    return False


def _records(file: Added) -> int:
    return int(json.loads(file["stats"])["numRecords"])


def _marked_file(file: Added, vector: dict[str, Any]) -> Added:
    """A file as a commit adds it again, with another vector: its bounds may be wider than its rows. They stay
    letter for letter what they were: a decimal number that is rounded is no bound.
    """
    told = {name: value for name, value in file.items() if name != "stats" and value is not None}
    stats = {**msgspec.json.decode(file["stats"], type=dict[str, msgspec.Raw]), "tightBounds": False}
    return {
        **told,
        "partitionValues": {},
        "dataChange": True,
        "stats": msgspec.json.encode(stats).decode(),
        "deletionVector": vector,
    }
