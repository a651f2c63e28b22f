"""Gold tables as JSON lines in silver's value encoding, live or as of any position up to the watermark."""

import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import LakehouseError
from lakehouse.events import Position
from lakehouse.fold.row_edits import Change
from lakehouse.gold.columns import GoldColumn, Typed, gold_columns, type_rows
from lakehouse.gold.modes import Mode
from lakehouse.gold.options import GoldOptions, from_plain
from lakehouse.gold.own_columns import computed_column, own_columns
from lakehouse.gold.shards import aligned, is_displaced, options_of, shards_id
from lakehouse.gold.table_names import names_held, shortened
from lakehouse.gold.upstream import clock_of, upstream_of
from lakehouse.lineage import History, Lineage, Name, split_name
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.ops.records.silver import Done
from lakehouse.ops.source_settings import SourceSettings
from lakehouse.spark.change_log.changes import (
    between,
    by_lineage,
    collect_changes,
    counted_changes,
    of_lineage,
)
from lakehouse.spark.change_log.schema_history import load_history
from lakehouse.spark.gold.layout import with_computed
from lakehouse.spark.gold.merge import typed_frame
from lakehouse.spark.lake import Lake, quote
from lakehouse.spark.ops.gold_names import named, the_one
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.quality.gates import Gate, open_gates
from lakehouse.spark.readers.positions import check_floor, parse_position
from lakehouse.spark.session import get_session
from lakehouse.spark.silver.tables import read_silver
from lakehouse.spark.source import options_in, said_in, suites_in
from lakehouse.spark.table_versions import read_published


def show_all(root: str, folder: Path, ats: list[str]) -> list[Path]:
    """Write every live table as `db.table.jsonl` into `folder`; with several `ats`, into a folder of its own
    per moment.
    """
    spark, lake = get_session(), Lake(root)
    written: list[Path] = []
    folder.mkdir(parents=True, exist_ok=True)
    for source, settings in sources(spark, lake).items():
        reader = Reader(spark, lake, source, settings)
        if not ats:
            written += [
                write_lines(free_file(folder, source, name, written), reader.live(name))
                for name in reader.live_names()
            ]
        for at in ats:
            target = folder / at if len(ats) > 1 else folder
            target.mkdir(parents=True, exist_ok=True)
            for name, lines in reader.at(at):  # of one name there may be two
                written.append(write_lines(free_file(target, source, name, written), lines))
    return written


def free_file(folder: Path, source: str, name: Name, written: list[Path]) -> Path:
    """A table's file; the source's name stands before it where another source has a table of the
    same name.
    """
    path = folder / f"{shortened(f'{name[0]}.{name[1]}')}.jsonl".replace("/", "_")
    return folder / f"{source}:{path.name}" if path in written else path


def write_lines(path: Path, lines: Iterator[str]) -> Path:
    with path.open("w", encoding="utf-8") as out:
        out.writelines(line + "\n" for line in lines)
    return path


class Shown(NamedTuple):
    """One table's rows, or its changes, as JSON text; and the order of its source's positions."""

    lines: Iterator[str]
    order: str


def show_table(root: str, table: str, layer: str, at: str | None) -> Shown:
    """One table's rows, or its changes (`layer` silver)."""
    spark, lake = get_session(), Lake(root)
    known, name = named(spark, lake, table)
    readers = {source: Reader(spark, lake, source, settings) for source, settings in known.items()}
    live = layer == "gold" and at is None
    reader = the_one(
        {source: reader for source, reader in readers.items() if reader.has(name, live=live)},
        table,
        lake.root,
    )
    lines = reader.find(name, at) if layer == "gold" else reader.changes(name, at)
    if lines is None:
        raise LakehouseError(
            f"{table}: expected a table that existed at {at}, found none; `lakehouse schema history {table}` "
            "shows since when it does"
        )
    return Shown(lines, reader.settings.order)


class Reader:
    """Reads one source's gold: published tables from Delta, any other moment by folding silver."""

    def __init__(self, spark: SparkSession, lake: Lake, source: str, settings: SourceSettings) -> None:
        # the generation of silver that its log knows, whatever others read of the lake later
        lake = replace(lake, present={})
        self.spark, self.lake, self.source, self.settings = spark, lake, source, settings
        self.log = OpsLog(spark, lake, source).load()
        self.manifest = self.log.last(Manifest)
        self.done = self.log.last(Done)
        self._history: History | None = None
        self._changes: dict[str, list[tuple[Change, int]]] | None = None

    @property
    def history(self) -> History:
        if self._history is None:
            assert self.done is not None
            self._history = load_history(self.log, self.done, said_in(self.settings))
        return self._history

    def entries(self) -> dict[Name, TableEntry]:
        entries = self.manifest.tables if self.manifest else ()
        return {(entry.database, entry.table): entry for entry in entries if entry.state != "retired"}

    def live_names(self) -> list[Name]:
        return sorted(self.entries())

    def has(self, table: str, *, live: bool) -> bool:
        """Whether gold has the table; if not `live`, whether a message ever spoke of it will do."""
        if any(".".join(name) == table for name in self.entries()):
            return True
        if live or self.done is None:
            return False
        met = [one.name for one in self.done.tables]
        met += [interval.name for lineage in self.history.lineages for interval in lineage.intervals]
        return any(".".join(name) == table for name in met)

    def find(self, table: str, at: str | None) -> Iterator[str] | None:
        if at is None:
            return next((self.live(name) for name in self.entries() if ".".join(name) == table), None)
        return next((lines for name, lines in self.at(at) if ".".join(name) == table), None)

    def modes(self, entry: TableEntry) -> list[Mode]:
        """The mode of each of a table's lineages, as it is published."""
        at, ids = self.manifest_or_error().position_of(entry), entry.lineages
        return by_name(self._mode(lineage, at) for lineage in self.history.lineages if lineage.id in ids)

    def live(self, name: Name, most: int | None = None) -> Iterator[str]:
        """The rows of the Delta table, at the version that the manifest names; not all where there are more
        than `most`.
        """
        entry = self.entries()[name]
        modes = self.modes(entry)
        frame = read_published(self.spark, self.lake, entry)
        rows = frame if most is None else frame.limit(most)
        return self._frame_lines(modes[0], self._aligned(modes)[0], rows)

    def columns(self, name: Name) -> list[GoldColumn]:
        """The source's columns, and the mode's own, of a table as it is published."""
        return self._aligned(self.modes(self.entries()[name]))[0]

    def _frame_lines(self, mode: Mode, columns: list[GoldColumn], frame: DataFrame) -> Iterator[str]:
        columns = [
            *columns,
            *(computed_column(name) for name in mode.options.computed if name in frame.columns),
        ]
        raws = [column.companion for column in columns if column.companion in frame.columns]
        names = [column.name for column in columns]
        table = frame.select(
            *[F.col(quote(held)).alias(f"c{i}") for i, held in enumerate([*names, *raws])]
        ).toArrow()
        values = [table.column(i).to_pylist() for i in range(len(names) + len(raws))]
        rows = (
            [dict(zip([*names, *raws], row, strict=True)) for row in zip(*values, strict=True)]
            if values
            else []
        )
        return _lines(rows, columns, _names(columns, mode.row_ids), raws)

    def at(self, at: str) -> Iterator[tuple[Name, Iterator[str]]]:
        """Every table that existed right after `at`, dropped and renamed ones included, folded from
        silver.
        """
        position = parse_position(self.log, at, self.watermark())
        check_floor(self.log, at, position)
        changes = self._all_changes()
        # a table of several may have the name of another table
        tables: dict[tuple[Name, str], list[Mode]] = {}
        live, said = self.live_at(position), options_in(self.settings)
        for name, lineage in live.items():
            mode = self._mode(lineage, self.stands_at(lineage, position))
            merged = "" if is_displaced(lineage, name, live, said) else mode.options.merged
            tables.setdefault((split_name(merged) if merged else name, merged), []).append(mode)
        for (name, _), modes in sorted(tables.items(), key=lambda item: (item[0][0], not item[0][1])):
            modes = by_name(modes)
            told = [[change for change, _ in changes.get(mode.lineage.id, [])] for mode in modes]
            yield name, self._told_lines(modes, told)

    def live_at(self, position: Position) -> dict[Name, Lineage]:
        """The tables that exist right after a position, by name; one that is held before its DROP or RENAME
        has its name still, and what took that waits.
        """
        ids = {one for entry in self.manifest_or_error().tables for one in entry.lineages}
        names = names_held(self.history.lineages, position, ids)
        live = self.history.live(position)
        told = {name: one for name, one in live.items() if one.id not in {*names.kept, *names.waits}}
        kept = {one.id: one for one in self.history.lineages if one.id in names.kept}
        waits = (one for one in live.values() if one.id in names.waits)
        before = ((one.name_at(self.stands_at(one, position)), one) for one in waits)
        told |= {name: one for name, one in before if name is not None and one.id in ids}
        return told | {name: kept[lineage] for lineage, name in names.kept.items()}

    def stands_at(self, lineage: Lineage, position: Position) -> Position:
        """Where a lineage's rows stand at a position: gold holds a table before what it can't apply, and so
        do the moments behind that; a table that is to be merged into it waits with it.
        """
        manifest, options = self.manifest_or_error(), self.options(lineage)
        into = shards_id(options) if options.merged else lineage.id
        entry = next(
            (one for one in manifest.tables if lineage.id in one.lineages or one.lineage == into), None
        )
        return position if entry is None else min(position, manifest.position_of(entry))

    def changes(self, table: str, at: str | None) -> Iterator[str]:
        """A table's change log up to `at`, in position order, as silver holds it."""
        frame = read_silver(self.spark, self.lake, self.source, "changes")
        rows = frame.where(F.concat_ws(".", "database", "table") == table)
        if at is not None:
            rows = rows.where(between(None, parse_position(self.log, at, self.watermark())))
        return (
            row.value
            for row in rows.orderBy("position")
            .select(F.to_json(F.struct("*")).alias("value"))
            .toLocalIterator()
        )

    def _told_lines(self, modes: list[Mode], changes: list[list[Change]]) -> Iterator[str]:
        """The rows of a table, or of its shards together."""
        shapes = self._aligned(modes)
        parts = [
            type_rows(mode.rows(told).rows, columns)
            for mode, told, columns in zip(modes, changes, shapes, strict=True)
        ]
        if modes[0].options.computed:
            frames = [
                typed_frame(self.spark, typed, columns) for typed, columns in zip(parts, shapes, strict=True)
            ]
            frame = functools.reduce(
                lambda one, other: one.unionByName(other, allowMissingColumns=True), frames
            )
            return self._frame_lines(modes[0], shapes[0], with_computed(frame, modes[0].options.computed))
        raws = list(dict.fromkeys(name for typed in parts for name in typed.raw))
        rows = [row for typed in parts for row in _dicts(typed, raws)]
        return _lines(rows, shapes[0], _names(shapes[0], modes[0].row_ids), raws)

    def _all_changes(self) -> dict[str, list[tuple[Change, int]]]:
        if self._changes is None:
            assert self.done is not None
            changes = counted_changes(self.log, self.done.batch).where(between(None, self.watermark()))
            self._changes, _ = by_lineage(self.history, collect_changes(changes))
            for gate in self._gates():
                judged, _ = gate.changes(changes.where(of_lineage(gate.judge.lineage)))
                self._changes[gate.judge.lineage.id] = [(change, 0) for change in judged]
        return self._changes

    def _gates(self) -> list[Gate]:
        """The judges of the tables that have a suite: a rejected row is in no state of gold."""
        suites = suites_in(self.settings)
        upstream = upstream_of(self.settings.format, self.settings.options)
        gates = open_gates(
            self.log,
            0,
            self.history,
            suites,
            upstream=upstream,
            virtual=self.settings.virtual,
        )
        return [gate for lineage in self.history.lineages if (gate := gates.fit(lineage)) is not None]

    def manifest_or_error(self) -> Manifest:
        """The last manifest; LakehouseError where gold has published nothing."""
        if self.manifest is None:
            raise LakehouseError(f"{self.source}: gold has published nothing yet; `lakehouse run gold` does")
        return self.manifest

    def watermark(self) -> Position:
        """Up to where gold is published; LakehouseError where it has published nothing."""
        return self.manifest_or_error().watermark

    def _mode(self, lineage: Lineage, at: Position) -> Mode:
        upstream = upstream_of(self.settings.format, self.settings.options)
        return Mode(
            lineage,
            at,
            upstream,
            clock_of(self.settings.format, self.settings.order),
            options=self.options(lineage),
            virtual=self.settings.virtual,
        )

    def options(self, lineage: Lineage) -> GoldOptions:
        """Those that gold was built with, else those that the lake knows of."""
        entries = self.manifest.tables if self.manifest else ()
        built = next((entry for entry in entries if lineage.id in entry.lineages), None)
        if built is None or built.options is None:
            return options_of(lineage, options_in(self.settings))
        return from_plain(built.options)

    def _aligned(self, modes: list[Mode]) -> list[list[GoldColumn]]:
        """The columns of a table; of its shards' each in one order."""
        columns = [self._columns(mode) for mode in modes]
        if not modes[0].options.merged:
            return columns
        return list(aligned({str(number): told for number, told in enumerate(columns)})[0].values())

    def _columns(self, mode: Mode) -> list[GoldColumn]:
        columns = gold_columns(
            mode.lineage.steps[mode.target].schema, virtual=self.settings.virtual, options=mode.options
        )
        return columns + own_columns(mode.options, [column.name for column in columns])


def by_name(modes: Iterable[Mode]) -> list[Mode]:
    """In the order in which gold takes the shards of a table."""
    return sorted(modes, key=lambda mode: mode.lineage.name_at(mode.at) or ("", ""))


def _dicts(typed: Typed, raws: list[str]) -> list[dict[str, Any]]:
    nothing = [None] * typed.count
    named = {**typed.columns, **{name: typed.raw.get(name, nothing) for name in raws}}
    return [dict(zip(named, row, strict=True)) for row in zip(*named.values(), strict=True)]


def _names(columns: list[GoldColumn], ids: Iterable[int]) -> list[str]:
    return [column.name for column_id in ids for column in columns if column.column.id == column_id]


def _lines(
    rows: list[dict[str, Any]], columns: list[GoldColumn], keys: list[str], raws: list[str]
) -> Iterator[str]:
    """Rows as JSON text, in key order, columns in the table's order, companions last and only where they say
    something.
    """
    rows.sort(key=lambda row: [_sortable(row[name]) for name in (keys or row)])
    for row in rows:
        line = {
            column.name: None if row[column.name] is None else column.to_canonical(row[column.name])
            for column in columns
        }
        line.update({name: row[name] for name in raws if row[name] is not None})
        yield json.dumps(line, ensure_ascii=False)


def _sortable(value: Any) -> tuple[bool, Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return (value is not None, value if value is not None else 0)
