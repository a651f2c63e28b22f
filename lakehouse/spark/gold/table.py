"""One gold table in one run, and writing all of its rows, folded on the driver or in Spark jobs. A window of
changes is merged by window.py; what silver has of some rows alone is read here.

Each write returns what it wrote and what it found (lakehouse/spark/gold/results.py), so that no finding can
be dropped on the way to the manifest.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.events import Position, just_above
from lakehouse.fold.row_edits import Change, Key
from lakehouse.fold.steps import cuts
from lakehouse.fold.upcast import Row
from lakehouse.gold.columns import GoldColumn, gold_columns, type_rows
from lakehouse.gold.ddl_in_place import InPlace
from lakehouse.gold.modes import Mode, ModeRows
from lakehouse.gold.options import GoldOptions
from lakehouse.gold.own_columns import own_columns
from lakehouse.gold.shards import INTEGERS
from lakehouse.lineage import Lineage, key_ids
from lakehouse.reporting.text.values import counted
from lakehouse.schema import TableSchema
from lakehouse.spark import limits
from lakehouse.spark.change_log.changes import (
    between,
    changes_in,
    collect_changes,
    few_changes,
    named_changes,
    of_lineage,
)
from lakehouse.spark.change_log.key_changes import Reading, move_others, of_keys
from lakehouse.spark.fold.fold_job import FoldedFiles, FoldTask, fold_into_files, fold_large
from lakehouse.spark.fold.modes import mode_large, valued
from lakehouse.spark.fold.row_files import RowFiles
from lakehouse.spark.fold.typed_rows import OP, LargeFold
from lakehouse.spark.gold import merge
from lakehouse.spark.gold.layout import (
    PROPERTIES,
    altered,
    can_alter,
    declare_key,
    drop_key,
    key_names,
    named,
    new_fields,
)
from lakehouse.spark.gold.plan import GoldRun
from lakehouse.spark.gold.results import Counted, Found, Outcome, Size, Written, has_misfits
from lakehouse.spark.plain.files import rows_of
from lakehouse.spark.quality.gates import NO_VERDICT, Gate, Verdict
from lakehouse.spark.session import capabilities
from lakehouse.spark.table_versions import version_of


@dataclass(frozen=True, slots=True)
class GoldTable:
    """A lineage at one position, and the Delta table that holds it.

    step        the index of the lineage's step in force there
    columns     gold's columns; ids: those of the key
    reads_back  whether gold's values can be read back as the source's
    gate        judges the changes, where the table has a suite
    read        all of silver's changes of the lineage, where they were read together with other tables'
    """

    run: GoldRun
    lineage: Lineage
    at: Position
    gold: str
    options: GoldOptions
    step: int
    columns: list[GoldColumn]
    ids: tuple[int, ...]
    reads_back: bool = True
    gate: Gate | None = None
    read: pa.Table | None = None

    @property
    def schema(self) -> TableSchema:
        return self.lineage.steps[self.step].schema

    @property
    def size(self) -> Size:
        """The size of its changes in silver."""
        return self.run.size(self.lineage)

    @property
    def mode(self) -> Mode:
        """The rules of the table's mode."""
        of = self.run.settings
        return Mode(self.lineage, self.at, of.upstream, of.clock, options=self.options, virtual=of.virtual)

    @property
    def own_changes(self) -> DataFrame:
        """All of silver's changes of this lineage up to here."""
        return self.changes_above(None)

    def changes_above(self, low: Position | None) -> DataFrame:
        """Those of them above a position."""
        return self.all_changes.where(between(low, self.at))

    @property
    def all_changes(self) -> DataFrame:
        """All of silver's changes of this lineage, above `at` too."""
        return self.run.silver.where(of_lineage(self.lineage))

    @property
    def keys(self) -> list[GoldColumn]:
        """The columns that identify gold's rows."""
        ids = self.mode.row_ids
        return [column for column_id in ids for column in self.columns if column.column.id == column_id]

    @property
    def ordered_rows(self) -> int:
        """About how many rows the table has, for writing them in the order of the key; 0 where a session
        would compute a frame twice for that.
        """
        return self.size.rows if capabilities(self.run.spark).persist else 0

    def with_columns(self, columns: list[GoldColumn]) -> "GoldTable":
        """The table with the columns that all of its shards have. Text instead of a type of its own can't be
        read back.
        """
        own = {column.column.id: column.spark for column in self.columns}
        reads_back = all(
            column.spark in (own.get(column.column.id), *INTEGERS)
            for column in columns
            if column.column.id > 0
        )
        return replace(self, columns=columns, reads_back=reads_back)


def open_table(
    run: GoldRun, lineage: Lineage, at: Position, gold: str, *, options: GoldOptions, gate: Gate | None = None
) -> GoldTable:
    """The table of a lineage as it is right after `at`."""
    settings, step = run.settings, lineage.step_at(just_above(at))
    schema = lineage.steps[step].schema
    columns = gold_columns(schema, virtual=settings.virtual, options=options)
    columns += own_columns(options, [column.name for column in columns])
    ids = key_ids(lineage, step)
    return GoldTable(run, lineage, at, gold, options=options, step=step, columns=columns, ids=ids, gate=gate)


class WholeTable(NamedTuple):
    """All rows of a table, the driver's, a frame or files, what the fold found, what the rows came from in
    words, and how many changes it folded (None: they were not counted).
    """

    rows: Sequence[Row] | DataFrame | FoldedFiles
    found: Found
    what: str
    taken: int | None = None

    @property
    def number(self) -> int:
        """How many rows there are at least."""
        if isinstance(self.rows, FoldedFiles):
            return rows_of(self.rows.added)
        return 0 if isinstance(self.rows, DataFrame) else len(self.rows)

    def frame(self, table: GoldTable) -> DataFrame:
        """The rows as a frame; those in files are folded once more."""
        if isinstance(self.rows, FoldedFiles):
            return whole_table(table).frame(table)
        return self.rows if isinstance(self.rows, DataFrame) else frame_of(table, self.rows)

    def discard(self) -> None:
        """Delete files that no commit has added."""
        if isinstance(self.rows, FoldedFiles):
            self.rows.files.discard(self.rows.added)


def refold(table: GoldTable, *, exists: bool) -> Written:
    """Fold the whole table from silver and replace it in one commit; nothing is written where rows have
    columns that no DDL has declared.
    """
    run, whole = table.run, (None if exists else _whole_in_files(table)) or whole_table(table)
    found = whole.found
    if table.gate is not None:
        found = found.plus(Found(verdict=Verdict(whole=frozenset({table.lineage.id}))))
    if found.unknown:
        whole.discard()
        return Written(-1, "", found, whole=True, taken=whole.taken)
    if table.options.primary_key and exists:
        drop_key(run.spark, run.lake, table.gold)
    put = None if exists else _created_here(table, whole)
    put = put or merge.replace_frame(
        run.spark,
        run.lake,
        table.gold,
        whole.frame(table),
        create=not exists,
        options=table.options,
        keys=table.keys,
        rows=table.ordered_rows,
    )
    version = put.version
    if table.options.primary_key:
        declare_key(run.spark, run.lake, table.gold, key_names(table.columns, table.ids))
        # the next run goes on from here: from the version without the key it would take the key back
        version = version_of(run.spark, run.lake, table.gold)
    what = f"{'folded again' if exists else 'created'}{whole.what}"
    found = found.plus(Found(problems=put.lacking(whole.number)))
    return Written(version, what, found, whole=True, taken=whole.taken)


def change_columns(table: GoldTable, change: InPlace, version: int) -> int | None:
    """Apply DDL to the table in place, at its published version. Returns the new version, or None where
    nothing is done because the table has to be folded whole.
    """
    run = table.run
    held = run.lake.read(run.spark, "gold", table.gold, version).columns
    if not can_alter(change, held):
        return None
    frame = altered(run.spark, run.lake, table.gold, change, held=held)
    if frame is not None:
        return merge.replace_frame(run.spark, run.lake, table.gold, frame, create=False).version
    return version_of(run.spark, run.lake, table.gold)


def whole_table(table: GoldTable) -> WholeTable:
    """All rows of the table, folded from silver: on the driver where they are few."""
    if not table.size.small:
        return _whole_large(table)
    changes, verdict = judged_changes(table, count=True)
    given = Counted(changes)
    folded = table.mode.rows(given)
    what = f": {counted(len(folded.rows), 'row')} from {counted(folded.applied, 'change')}"
    return WholeTable(folded.rows, findings_of(folded, verdict), what, given.number)


def _whole_large(table: GoldTable) -> WholeTable:
    changes, verdict = table.own_changes, NO_VERDICT
    if table.gate is not None:
        changes, verdict = table.gate.frame(changes)
    if table.options.plain:
        large = fold_changes(table, changes, table.size.rows)
        rows = large.frame.where(F.col(OP) != "delete")
    else:
        large = mode_large(changes, table.mode, table.columns, table.size.rows)
        rows = large.frame
    frame = named(rows, table.columns, large.companions, None)
    tag = table.mode.tag if table.options.plain else {}
    for column in table.columns:
        if column.column.id in tag:
            frame = frame.withColumn(column.name, F.lit(tag[column.column.id]))
    found = Found(
        large.unknown,
        large.problems,
        table.size.rows,
        verdict,
        breaks=large.breaks,
        guessed=large.guessed,
    )
    # of a table with a suite some were rejected
    taken = large.taken if table.gate is None else None
    return WholeTable(frame, found, f" from {table.size.rows} changes", taken)


def fold_changes(table: GoldTable, changes: DataFrame, rows: int, above: Position | None = None) -> LargeFold:
    """About `rows` changes of the table, folded in Spark jobs: all that it has, or those above a position."""
    task = _task(table, above, rows)
    return fold_large(changes, task, table.columns, needed=table.mode.needed, rows=rows)


def _task(table: GoldTable, above: Position | None, rows: int) -> FoldTask:
    upstream, files = table.run.settings.upstream, None if table.gate is not None else table.run.files
    images = table.size.bytes * rows // max(1, table.size.rows)
    read = None if files is None else files.of(table.lineage, above, table.at, images=images)
    return FoldTask(table.lineage, table.at, table.step, upstream, all_changes=above is None, read=read)


def _whole_in_files(table: GoldTable) -> WholeTable | None:
    """All rows of a new table in files of it; None where its rows do not come so, or have an order."""
    options, run = table.options, table.run
    is_large = not table.size.small and table.size.rows <= merge.ORDERED_ROWS
    if not (is_large and options.plain and options.is_bare) or table.mode.tag or table.gate is not None:
        return None
    folder = run.lake.files_folder(run.spark, "gold", table.gold)
    if folder is None or (fields := new_fields(table.columns)) is None:
        return None
    folded = fold_into_files(
        table.own_changes,
        _task(table, None, table.size.rows),
        table.columns,
        needed=table.mode.needed,
        rows=table.size.rows,
        files=RowFiles(str(folder), fields),
    )
    if folded is None:
        return None
    found = Found(folded.unknown, folded.problems, table.size.rows, breaks=folded.breaks)
    return WholeTable(folded, found, f" from {table.size.rows} changes", folded.taken)


def judged_changes(table: GoldTable, *, count: bool) -> tuple[Iterable[Change], Verdict]:
    """All of the table's changes up to its position, and the verdict of its suite, if it has one; with
    `count` the verdict counts the passes and failures of each check.
    """
    if table.gate is not None:
        return table.gate.changes(table.own_changes, count=count)
    if table.read is not None:
        return changes_in(table.read, table.lineage, table.at), NO_VERDICT
    return (change for _, change, _ in collect_changes(table.own_changes)), NO_VERDICT


class KeyChanges(NamedTuple):
    """All of silver's changes of some rows, and maybe of others; `is_all`: all of the table's."""

    changes: Iterable[Change]
    verdict: Verdict
    is_all: bool


def key_changes(table: GoldTable, keys: Collection[Key], since: Position | None = None) -> KeyChanges | None:
    """What silver has of these rows, behind `since`: all of the table's changes where they are few, else
    those of the rows, which Spark's workers find. None where nothing less than a fold in Spark will do: even
    these are more than the driver holds, they are judged, the rows' keys can't be told from changes alone, a
    row has moved from another key or to it, or what is known to lack may be mended by what came late.
    """
    if table.size.small:
        return KeyChanges(*judged_changes(table, count=False), is_all=True)
    entry, upstream = table.run.entries.get(table.lineage.id), table.run.settings.upstream
    if table.gate is not None or (entry is not None and has_misfits(entry)):
        return None
    if cuts(table.lineage, table.step, upstream):
        return None
    plain = table.options.plain
    read_as = table.lineage if plain else valued(table.lineage)
    reading = Reading(read_as, table.step, upstream, cleared=not plain)
    mine = of_keys(table.changes_above(since), reading, keys)
    rows = few_changes(mine, limits.GOLD_TABLE_CHANGES, limits.GOLD_TABLE_BYTES)
    if rows is None:
        return None
    changes = [change for _, change, _ in named_changes(rows)]
    return None if move_others(reading, changes, keys) else KeyChanges(changes, NO_VERDICT, is_all=False)


def findings_of(rows: ModeRows, verdict: Verdict = NO_VERDICT) -> Found:
    """What the fold of a mode's rows found, as Found."""
    return Found(rows.unknown, rows.problems, rows.applied, verdict, breaks=rows.breaks, guessed=rows.guessed)


def frame_of(
    table: GoldTable, puts: Sequence[Row], deletes: Sequence[Row] = (), *, ops: bool = False
) -> DataFrame:
    """Rows as a DataFrame with gold's types; with `ops` a column says which are put and which deleted."""
    words = ["put"] * len(puts) + ["delete"] * len(deletes) if ops else None
    typed = type_rows([*puts, *deletes], table.columns)
    return merge.typed_frame(table.run.spark, typed, table.columns, words).coalesce(1)


def _created_here(table: GoldTable, whole: WholeTable) -> merge.Merged | None:
    """The table made of files, or of the driver's rows, without Spark; None where that can't be."""
    run = table.run
    if isinstance(whole.rows, FoldedFiles):
        added, fields = whole.rows.added, whole.rows.fields
        if run.lake.create_files(run.spark, table.gold, added, fields=fields, properties=PROPERTIES):
            return merge.Merged(0, written=rows_of(added))
        whole.discard()
        return None
    if not limits.GOLD_MERGE_BYTES or isinstance(whole.rows, DataFrame) or not table.options.is_bare:
        return None
    typed = type_rows(whole.rows, table.columns)
    return merge.create_here(run.spark, run.lake, table.gold, typed, columns=table.columns)


def merged_here(table: GoldTable, outcome: Outcome) -> merge.Merged | None:
    """An outcome's rows merged into gold without Spark; None where that can't be."""
    if not limits.GOLD_MERGE_BYTES or table.mode.word == "append" or table.options.computed:
        return None
    spark, lake, columns = table.run.spark, table.run.lake, table.columns
    puts, deletes = outcome.puts, outcome.deletes
    return merge.merge_here(
        spark,
        lake,
        table.gold,
        type_rows([*puts, *deletes], columns),
        deleted=[False] * len(puts) + [True] * len(deletes),
        columns=columns,
        keys=table.keys or columns,
        options=table.options,
        keyless=not table.ids,
        known=outcome.hits,
    )
