"""How long a source's ops log takes to load after 200,000 runs, two years of one each five minutes, of a
source of 1,000 tables.

    python -m bench.past_runs [--runs 200000] [--tables 1000]

The log is what runs leave: of each run a plan, a done record, an intent, a manifest and the run's own record,
pruned by the same rule and as often as runs do it. The records that stay are written to a Delta table, and
loaded in this process, four times; each time the last records are asked for that each run asks for.
"""

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
from msgspec.structs import replace

from bench.measure import Cost, measured
from lakehouse.ops.gist import Gist, gist_of
from lakehouse.ops.progress import Counts, NextOffset, OffsetRange, TableSize
from lakehouse.ops.pruning import pruned
from lakehouse.ops.records.gold import Intent, Manifest, TableEntry
from lakehouse.ops.records.kinds import encode
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.runs import Run, Summary
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.spark import limits
from lakehouse.spark.change_log.dead_letters import closings
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import SCHEMA, TIDY, OpsLog
from lakehouse.spark.session import get_session

FIRST = 470_606_995_725_312_000
# so many runs are gone through one by one: no record of an earlier one stays, but in the summary
LAST = 10_000


@dataclass(frozen=True)
class Line:
    """A record, whose text has the length of `like`, and is made where somebody wants to write it."""

    seq: int
    record: Record
    like: str

    @property
    def kind(self) -> str:
        return self.record.kind

    @property
    def size(self) -> int:
        return len(self.like)

    @property
    def gist(self) -> Gist:
        return gist_of(self.record)

    @cached_property
    def row(self) -> dict[str, object]:
        return {"seq": self.seq, "kind": self.kind, "at": self.seq * 60_000, "body": encode(self.record)}


def records_of(run: int, done: Done, manifest: Manifest) -> Iterator[Record]:
    """What a run leaves."""
    ranges = tuple(replace(one, first=run * 10, last=run * 10 + 9) for one in RANGES)
    position = (0, FIRST + run, 1, 0, 0, 0)
    yield Planned(batch=run, generation="g" * 32, small=True, ranges=ranges)
    yield replace(done, batch=run)
    yield Intent(batch=run, watermark=position, tables=("shop__t1", "shop__t2"))
    yield replace(manifest, batch=run, watermark=position)
    yield Run(
        layers=("all",), begun=run, ended=run, landed=30, batches=1, published=1, seconds={}, error=None
    )


RANGES = tuple(OffsetRange("shop", "", number, 0, 0) for number in range(3))


def a_done(tables: int) -> Done:
    position = (0, FIRST, 1, 0, 0, 0)
    return Done(
        batch=0,
        counts=Counts(messages=30, decoded=30, inserted=30),
        top=position,
        reach=position,
        next=tuple(NextOffset(one.topic, "", one.partition, 10) for one in RANGES),
        marks=(),
        dead=(),
        tables=tuple(
            TableSize(("shop", f"t{n}"), position, position, 1000, 50_000, ("id",), ("shop",), 1000)
            for n in range(tables)
        ),
    )


def a_manifest(tables: int) -> Manifest:
    position = (0, FIRST, 1, 0, 0, 0)
    entries = tuple(
        TableEntry(
            lineage=f"{number:032d}",
            database="shop",
            table=f"t{number}",
            gold=f"shop__t{number}",
            wanted=f"shop__t{number}",
            version=number,
            shape="0" * 40,
            state="exact",
            since=None,
            notes=(),
            names=(("shop", f"t{number}"),),
            changes=(1000, 0),
        )
        for number in range(tables)
    )
    return Manifest(batch=0, watermark=position, consistency="resolved", auto=True, tables=entries)


def log_after(runs: int, tables: int) -> list[Line]:
    """The records that a log has after so many runs."""
    done, manifest = a_done(tables), a_manifest(tables)
    like = {one.kind: encode(one) for one in records_of(runs, done, manifest)}
    first = max(1, runs - LAST)
    seq = 5 * (first - 1)
    told = Summary(seq=seq, batch=first - 1, ranges=RANGES, messages=30 * first, inserted=30 * first)
    lines = [Line(seq, told, encode(told))] if first > 1 else []
    for run in range(first, runs + 1):
        for record in records_of(run, done, manifest):
            seq += 1
            lines.append(Line(seq, record, like[record.kind]))
        is_passed = seq // TIDY != (seq - 5) // TIDY
        if is_passed or sum(len(one.like) for one in lines) > 2 * limits.OPS_LOG_SIZE:
            found = pruned(lines, runs=limits.OPS_LOG_RUNS, size=limits.OPS_LOG_SIZE)
            if found is not None:
                seq += 1
                lines = [one for one in lines if not found.takes(one)]
                lines.append(Line(seq, found.summary, encode(found.summary)))
    return lines


def written(lines: list[Line], lake: Lake, table: str) -> None:
    """Append the records as runs have left them: files are put together at each multiple of TIDY, and those
    of a run are one or two since.
    """
    spark = get_session(app="bench")
    tidied = [line for line in lines if line.seq <= lines[-1].seq // TIDY * TIDY]
    rest = lines[len(tidied) :]
    for part in [tidied, *(rest[first : first + 3] for first in range(0, len(rest), 3))]:
        if part:
            rows = pa.Table.from_pylist([line.row for line in part])
            lake.append(spark.createDataFrame(rows, SCHEMA).coalesce(1), "ops", table)


def loaded(lake: Lake) -> None:
    """Load the log, and ask it what each run asks."""
    log = OpsLog(get_session(app="bench"), lake, "shop").load()
    assert log.last(Manifest) and log.last(Done) and log.last(Planned)
    closings(log)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.past_runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=200_000)
    parser.add_argument("--tables", type=int, default=1_000)
    given = parser.parse_args()
    begun = time.monotonic()
    lines = log_after(given.runs, given.tables)
    size = sum(len(one.like) for one in lines)
    print(
        f"{given.runs:,} runs, {given.tables:,} tables: {time.monotonic() - begun:.0f} s to make up",
        flush=True,
    )
    print(f"{len(lines):,} records, {size / limits.MIB:.0f} MiB of text stay", flush=True)
    with tempfile.TemporaryDirectory(prefix="lakehouse-log-") as folder:
        lake = Lake(str(Path(folder)))
        written(lines, lake, "shop_log")
        del lines
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        costs: list[Cost] = []
        for _ in range(4):
            with measured(costs.append, frozenset()):
                loaded(lake)
        memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    told = ", ".join(f"{one.wall:.2f} s ({one.cpu:.2f} CPU s)" for one in costs)
    print(f"loaded in {told}; {memory:.0f} MiB more; load average {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
