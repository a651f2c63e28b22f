"""The identity of changes of tables without a key, whose rows may be equal.

A keyed change is identified by table, key and position (TiCDC: epoch, commit_ts, rank; binlog: all of it;
arrival: with the partition). An update of a keyless table is stored as two halves, its before and its after
image. Each half is identified by its row id where the feed sends them, else by (hash of the image, n): n
counts equal halves within one run. A run is one (table, physical table, commit_ts) in one partition, ended by
another commit_ts of the same table or by a resolved event at or above its commit_ts; one that falls ends all,
since the changefeed begins again below it. A replay is a run of its own, so it counts from 0 again and
merges. Files of a storage sink have no resolved event between them: a file that begins with its run's first
half again may be a replay, or the rest of a transaction that was cut. Its rows are counted, and the half has
the flag WRITTEN_AGAIN.
"""

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from lakehouse.events import DELETE, UPSERT, Image, Position, RowChange
from lakehouse.ops.progress import OpenRun, OpenRuns

# the name, in a partition's runs, of what holds its last resolved_ts: no table's name is without a NUL
_RESOLVED = ""
_encode = msgspec.json.Encoder(order="sorted").encode


def image_hash(image: Image) -> str:
    """A hash of an image that does not depend on the order of its columns."""
    return hashlib.blake2b(_encode(image), digest_size=12).hexdigest()


def split_keyless(change: RowChange) -> list[RowChange]:
    """The halves of a keyless TiCDC update; any other change as it is."""
    if change.key_names or change.op != "update" or change.before is None or change.after is None:
        return [change]
    delete = msgspec.structs.replace(
        change, op="delete", after=None, position=with_rank(change.position, DELETE)
    )
    insert = msgspec.structs.replace(
        change, op="insert", before=None, position=with_rank(change.position, UPSERT)
    )
    return [delete, insert]


def with_rank(position: Position, rank: int) -> Position:
    return (position[0], position[1], rank, *position[3:])


class RunCounter:
    """Numbers equal halves within the runs of one partition, in the order in which they arrived."""

    def __init__(self, runs: Mapping[str, OpenRun] | None = None) -> None:
        self.runs = {
            table: OpenRun(run.commit_ts, run.ended, dict(run.halves)) for table, run in (runs or {}).items()
        }
        self._files: dict[str, int | None] = {}  # none lies in two batches

    def number(self, table: str, commit_ts: int, half: str, file: int | None = None) -> tuple[int, bool]:
        """n of this half, 0 for the first of its kind in the run, and whether its file may be a replay.
        `table` names the physical table, `file` is the offset of its file, where records are files.
        """
        run, again = self.runs.get(table), False
        if run is None or run.commit_ts != commit_ts or run.ended:
            run = self.runs[table] = OpenRun(commit_ts, False, {})
        elif self._files.get(table) != file:
            again = half == next(iter(run.halves))
        self._files[table] = file
        n = run.halves.get(half, 0)
        run.halves[half] = n + 1
        return n, again

    def resolved(self, resolved_ts: int) -> None:
        """A resolved event ends every run at or below it, and every run where it is below the last one."""
        last = self.runs.pop(_RESOLVED, None)
        falls = last is not None and resolved_ts < last.commit_ts
        for table, run in self.runs.items():
            if falls or run.commit_ts <= resolved_ts:
                self.runs[table] = OpenRun(run.commit_ts, True, {})
        self.runs[_RESOLVED] = OpenRun(resolved_ts, True, {})


def resolved_runs(runs: OpenRuns, resolved: Iterable[tuple[str, int]]) -> OpenRuns:
    """The runs after a batch that has no rows of tables without a key, but these resolved events: the
    partition and resolved_ts of each, in the order in which they arrived. The last one is kept of partitions
    without runs too: one below it ends the runs that begin in between.
    """
    counters = {place: RunCounter(known) for place, known in runs.items()}
    for place, resolved_ts in resolved:
        counters.setdefault(place, RunCounter()).resolved(resolved_ts)
    return {place: counter.runs for place, counter in counters.items()}


def with_picked_rows(before: OpenRuns, after: OpenRuns) -> OpenRuns:
    """The open runs after a batch of records that were picked out: those that were open before, with the
    equal halves that such records add to them, and those of later commits, which no resolved event has ended.
    """
    found = {place: dict(runs) for place, runs in before.items()}
    for place, picked in after.items():
        runs = found.setdefault(place, {})
        resolved = runs[_RESOLVED].commit_ts if _RESOLVED in runs else -1
        for table, run in picked.items():
            known = runs.get(table)
            if known is not None and known.commit_ts == run.commit_ts and not known.ended:
                halves = {half: max(n, known.halves.get(half, 0)) for half, n in run.halves.items()}
                runs[table] = OpenRun(known.commit_ts, False, {**known.halves, **halves})
            elif not run.ended and run.commit_ts > (
                resolved if known is None else max(resolved, known.commit_ts)
            ):
                runs[table] = run
    return found
