"""`lakehouse verify --repair`: mends the tables that differ from the source's, and writes to no other.

    restored   others have written to the Delta table: its rows are those of the published version again
    rebuilt    what is published is not what silver's log folds to: the table is folded again
    rows       silver's log is not what the source has: the rows that differ are read again from the database,
               and exact at the next watermark behind that (repair_rows.py)
    snapshot   the same, where the rows alone can't be read: of the whole table

Each comes where the one before leaves a difference: what gold alone had wrong is compared again before a
table is read.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lakehouse.config.load import Config, database_settings
from lakehouse.errors import LakehouseError
from lakehouse.lineage import Name
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.operators import Rebuild
from lakehouse.reporting.logs import say
from lakehouse.spark.operations.rebuild import request, shadow_difference, shadow_run
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline.repair_rows import read_rows_again
from lakehouse.spark.pipeline.snapshot_tables import Asked, snapshot_tables
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.session import get_session, many_rows
from lakehouse.spark.source import selected_sources
from lakehouse.spark.verification.compare import Held, held
from lakehouse.spark.verification.looks import Compared, Options, looks_within
from lakehouse.spark.verification.record import compared, entry
from lakehouse.spark.verification.run import TableResult
from lakehouse.verification.part import WholeOnly
from lakehouse.verification.verdict import TABLE

RESTORED, REBUILT, ROWS, SNAPSHOT = "restored", "rebuilt", "rows", "snapshot"
WHY = "verify --repair"
GONE = "the source has no such table: a DROP or RENAME was not told"
OVERRULED = "a DDL of it was ignored or skipped, maybe that is why; `lakehouse snapshot --tables` reads it"
REJECTED = "expectations keep rows of it out of gold: see `lakehouse rejected list`"


class Repair(NamedTuple):
    """What was done to a table, in its order, and why it differs still (None: it does not, or will not once
    the watermark is behind its snapshot).
    """

    steps: tuple[str, ...] = ()
    why_not: str | None = None


@dataclass(slots=True)
class Differing:
    """A table that differs: how it was when it was last compared, and what was done to it."""

    result: TableResult
    steps: list[str] = field(default_factory=list)
    why_not: str | None = None

    @property
    def name(self) -> Name:
        return self.result.name

    @property
    def is_open(self) -> bool:
        return bool(self.result.different) and self.why_not is None

    def take(self, result: TableResult | None) -> None:
        """Take what another comparison finds."""
        if result is None or not result.compared:
            why = "it is no longer published" if result is None else result.why
            self.why_not = f"it can't be compared any more: {why}"
            return
        self.result = result
        if result.undecided and not result.different:
            self.why_not = f"compared again, {len(result.undecided)} rows are undecided: {result.why}"


def verified(asked: Compared, *, repair: bool) -> list[dict[str, Any]]:
    """Compare a source's tables, with `repair` mend those that differ, and give one entry a table."""
    results = compared(asked)
    if not repair:
        return [entry(one) for one in results]
    done = repaired(asked, results)
    return [
        {**entry(one), "repaired_by": list(found.steps), "not_repaired": found.why_not}
        if (found := done.get(one.name)) is not None
        else entry(one)
        for one in results
    ]


def verify_sources(
    config: Config, select: tuple[str, ...], lake: str | None, *, repair: bool
) -> Iterator[dict[str, Any]]:
    """The entries of all selected sources that name a database, or of the tables that are selected. At last
    LakehouseError where rows differ, and stay so, or a source could not be compared.
    """
    wrong = list[str]()
    for source in selected_sources(config, select, lake):
        if source.config.database is None:
            say(f"verify  {source.name}: left out, its YAML names no database")
            continue
        tables = () if source.name in select else tuple(name for name in select if name in config.tables)
        options = Options(tuple(name for name in tables if config.tables[name].source == source.name))
        try:
            asked = Compared(source, database_settings(source.config), options, progress=say)
            entries = verified(asked, repair=repair)
        except LakehouseError as error:
            say(str(error), "error")
            wrong.append(source.name)
            continue
        wrong += [f"{source.name}: {one['table']}" for one in entries if is_wrong(one)]
        yield from ({"source": source.name, **one} for one in entries)
    if wrong:
        raise LakehouseError(f"expected the rows of the sources, got others or no answer: {'; '.join(wrong)}")


def is_wrong(entry: Mapping[str, Any]) -> bool:
    """Whether a table's entry says that rows differ, and stay so."""
    return bool(entry.get("different")) and ("not_repaired" not in entry or entry["not_repaired"] is not None)


def repaired(asked: Compared, results: Sequence[TableResult]) -> dict[Name, Repair]:
    """Mend the tables of which `results` say that rows differ; says of each of them what was done."""
    run = _Repairs(asked, [Differing(one) for one in results if one.different])
    run.mend_gold(RESTORED, _is_overwritten)
    run.mend_gold(REBUILT, _is_folded_otherwise)
    run.read_again()
    return {one.name: Repair(tuple(one.steps), one.why_not) for one in run.tables}


@contextmanager
def stopping(*tables: Differing) -> Iterator[None]:
    """An error stops the repair of these tables alone; what was done to others is told."""
    try:
        yield
    except LakehouseError as error:
        for one in tables:
            one.why_not = str(error)


class _Repairs:
    """The tables of one run, step by step."""

    def __init__(self, asked: Compared, tables: list[Differing]) -> None:
        self.asked, self.tables, self.spark = asked, tables, get_session()
        self.source, self.progress = asked.source, asked.progress

    def _reader(self) -> Reader:
        lake, name = self.source.lake, self.source.name
        return Reader(self.spark, lake, name, sources(self.spark, lake)[name])

    def mend_gold(self, step: str, is_needed: Callable[[Held], bool]) -> None:
        """Have gold's next run mend the tables of which gold alone is wrong, and compare them again."""
        reader = self._reader()
        wrong = list[tuple[Differing, Held]]()
        for one in self.tables:
            with stopping(one):
                if one.is_open and (table := held(reader, one.name)) is not None and is_needed(table):
                    wrong.append((one, table))
        if not wrong:
            return
        for one, _ in wrong:
            self.progress(f"verify  {self.source.name}: {'.'.join(one.name)} is to be {step}")
        records = [
            Rebuild(lineage=table.entry.lineage, why=WHY, published=step == RESTORED) for _, table in wrong
        ]
        why_not = self._asked_of_gold(reader, records)
        for one, _ in wrong:
            one.why_not = why_not
        if why_not is None:
            self._compare_again([one for one, _ in wrong], step)

    def _asked_of_gold(self, reader: Reader, records: Sequence[Rebuild]) -> str | None:
        """Why gold has not done what it was asked; None where it has: here, or in a run that goes on."""
        done = request(reader.log, reader.settings, records, progress=self.progress)
        if done is True:
            return None
        for _ in looks_within(self.asked.options):
            log = OpsLog(self.spark, self.source.lake, self.source.name).load()
            manifest = log.last(Manifest)
            if manifest is not None and manifest.rebuilds >= len(log.all(Rebuild)):
                return None
        return f"gold's next run mends it; {done}"

    def _compare_again(self, tables: Sequence[Differing], step: str) -> None:
        """All of these tables' rows, though a sample may have found them."""
        names = tuple(".".join(one.name) for one in tables)
        options = replace(self.asked.options, tables=names, sample=1.0)
        for one in tables:
            one.steps.append(step)
        with stopping(*tables):
            results = {one.name: one for one in compared(replace(self.asked, options=options))}
            for one in tables:
                one.take(results.get(one.name))

    def read_again(self) -> None:
        """Read the tables that differ still from the database, one after the other: one that can't be read
        stops no other one.
        """
        reader = self._reader()
        for one in self.tables:
            with stopping(one):
                if one.is_open:
                    table = held(reader, one.name)
                    one.why_not = _why_not_read(one.result, table)
                    if one.why_not is None and table is not None and not self._rows(one, table):
                        one.why_not = self._snapshot(one)

    def _rows(self, one: Differing, table: Held) -> bool:
        """Read the rows that differ again; False where all of the table has to be."""
        name = f"verify  {self.source.name}: {'.'.join(one.name)}"
        try:
            landed = read_rows_again(self.source, table, one.result, self.progress)
        except WholeOnly as why:
            self.progress(f"{name} is read again from the database, all of its rows: {why}")
            return False
        self.progress(f"{name}: {landed}")
        one.steps.append(ROWS)
        return True

    def _snapshot(self, one: Differing) -> str | None:
        # what a snapshot that was broken off has read may be older than the change that is lacking
        asked = Asked(names=frozenset({one.name}), parallel=1, again=True)
        result = snapshot_tables(self.source, asked, self.progress)
        if not result["tables"]:
            return "the account's database lists no table of that name"
        one.steps.append(SNAPSHOT)
        return None


def _is_overwritten(table: Held) -> bool:
    """Whether what readers see is what somebody else has written over what was published."""
    return table.version != table.entry.version


def _is_folded_otherwise(table: Held) -> bool:
    """Whether silver's log folds to other rows than those that are published."""
    reader, manifest = table.reader, table.reader.manifest_or_error()
    run = shadow_run(reader.log, reader.settings, manifest, manifest.watermark)
    with many_rows(reader.spark):
        found = shadow_difference(run, table.entry, table.entry.gold, table.version)
    # a column that one of them lacks, and that is null in the other, is no other row
    return bool(found["only_live"] or found["only_rebuilt"])


def _why_not_read(result: TableResult, table: Held | None) -> str | None:
    """Why no snapshot mends a table; None where one does."""
    if table is None or any(one.kind == TABLE for one in result.different):
        return GONE
    if table.mode.lineage.overruled:
        return OVERRULED
    return REJECTED if "rejected rows" in (table.entry.why or "") else None
