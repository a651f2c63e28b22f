"""The position of a dump: from the `metadata` file of Dumpling and mydumper, or mysqldump's CHANGE MASTER.

    Dumpling, mydumper to 0.11      SHOW MASTER STATUS: and, indented, Log, Pos, GTID
    mydumper from 0.12              [master] or [source] with File and Position (SOURCE_LOG_FILE,
                                    SOURCE_LOG_POS), sometimes behind `#`
    mysqldump                       -- CHANGE MASTER TO MASTER_LOG_FILE='…', MASTER_LOG_POS=…;

A section of a replica (SHOW SLAVE STATUS, [replication]) tells its primary's position and does not count.
From mydumper 0.15 on it also tells how many rows of each table were dumped: [`database`.`table`] and rows.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from lakehouse.errors import LakehouseError
from lakehouse.sources.dumps.records import LEAST_TSO, BinlogPlace, Place, Tso

_OLD = re.compile(
    r"^SHOW (?:MASTER|BINARY LOG) STATUS:([^\n]*)\n\s+Log: ?([^\n]*)\n\s+Pos: ?(\d+)", re.M | re.I
)
_SECTION = re.compile(r"^\[(?:master|source)\]\s*\n((?:[^\[\n][^\n]*\n|\n)*)", re.M | re.I)
_FILE = re.compile(
    r"^#?\s*(?:File|(?:SOURCE|MASTER)_LOG_FILE)\s*=\s*[\"']?([^\"'\n]*?)[\"']?\s*$", re.M | re.I
)
_POSITION = re.compile(
    r"^#?\s*(?:Position|(?:SOURCE|MASTER)_LOG_POS)\s*=\s*[\"']?(\d+)[\"']?\s*$", re.M | re.I
)
_ROWS = re.compile(r"^\[([`\"])(.+)\1\.\1(.+)\1\]\n(?:(?!\[)[^\n]*\n)*?rows = (\d+)$", re.M)
_FINISHED = re.compile(r"^#?\s*Finished dump at:", re.M)
_CHANGE_MASTER = re.compile(
    r"CHANGE (?:MASTER|REPLICATION SOURCE) TO\s+(?:MASTER|SOURCE)_LOG_FILE\s*=\s*'([^']+)'\s*,\s*"
    r"(?:MASTER|SOURCE)_LOG_POS\s*=\s*(\d+)",
    re.I,
)
_GIVEN = re.compile(r"(?:(.+):)?(\d{1,20})")
_BINLOG_NAME = re.compile(r".*\.\d{1,18}")


class Metadata(NamedTuple):
    """What a metadata file says. `place` is None where the server had no binlog; `rows`: how many rows of a
    table were dumped, by the stem of its files, where that is told.
    """

    place: Place | None
    finished: bool
    rows: Mapping[str, int]


def read_metadata(text: str) -> Metadata:
    """A metadata file; LakehouseError where it tells two positions: then the dump is of no one moment."""
    found = {(file.strip(), int(position)) for _, file, position in _OLD.findall(text)}
    for section in _SECTION.findall(text):
        file, position = _FILE.search(section), _POSITION.search(section)
        if file is not None and position is not None and file[1]:
            found.add((file[1], int(position[1])))
    if len(found) > 1:
        told = " and ".join(sorted(f"{file}:{position}" for file, position in found))
        raise LakehouseError(
            f"metadata: expected one position, got {told}: the dump is of no one moment; dump again with "
            "--consistency lock or snapshot (Dumpling), without --no-locks (mydumper)"
        )
    place = next((place_of(*one) for one in found), None)
    rows = {f"{database}.{table}": int(count) for _, database, table, count in _ROWS.findall(text)}
    return Metadata(place, _FINISHED.search(text) is not None, rows)


def place_of(file: str, position: int) -> Place:
    """A position as SHOW MASTER STATUS tells it: TiDB has its TSO there."""
    return Tso(position) if position >= LEAST_TSO else BinlogPlace(file, position)


def change_master(text: str) -> Place | None:
    """The position that mysqldump's comment or statement tells, if it is one."""
    found = _CHANGE_MASTER.search(text)
    return None if found is None else place_of(found[1], int(found[2]))


def given_place(text: str) -> Place:
    """A position as an operator gives it: a TSO, or FILE:OFFSET. LakehouseError for anything else."""
    found = _GIVEN.fullmatch(text.strip())
    if found is not None and found[1] is None and int(found[2]) >= LEAST_TSO:
        return Tso(int(found[2]))
    if found is not None and found[1] is not None and _BINLOG_NAME.fullmatch(found[1]):
        return BinlogPlace(found[1], int(found[2]))
    raise LakehouseError(
        f"--at: expected a TSO such as 449583647234560000, or a binlog's FILE:OFFSET, got {text!r}"
    )
