"""The readings of `lakehouse ui`: a lake's sources as they grow, and what a page of one thing needs.

A source is observed again where its ops log has new records; else only its lag is asked for. What a page
shows is bounded, and so is what is read of it into the driver. To find a row's changes Spark looks through
the changes of its table: that alone takes longer in a larger lake.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from lakehouse.config.load import Config
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.ops.records.silver import Done
from lakehouse.ops.source_settings import SourceSettings
from lakehouse.reporting.text.values import origin
from lakehouse.reporting.web.readings import (
    After,
    Bytes,
    ChangesBetween,
    Difference,
    Letter,
    LetterBytes,
    Letters,
    Manifests,
    NotThere,
    Observed,
    Place,
    Published,
    RowHistory,
    Statement,
    TableChange,
    TableRows,
)
from lakehouse.spark.change_log.changes import between
from lakehouse.spark.change_log.dead_letters import is_open
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.readers.bronze_records import Chosen, records
from lakehouse.spark.readers.row_history import key_columns, of_row, shown_changes
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.readers.status import with_lag
from lakehouse.spark.readers.timeline import observe, table_of
from lakehouse.spark.session import get_session
from lakehouse.spark.silver.tables import read_silver
from lakehouse.spark.source import Source, selected_sources

# Rows, changes, letters, manifests or statements of one page.
PAGE = 50
# Seconds until a source's lag is asked for again; a broker that is away makes everybody wait.
LAG, LAG_AWAY = 5, 60
# Bytes of a message's part that are shown, and its headers.
SHOWN = 16 * 1024
HEADERS = 20


@dataclass(slots=True)
class _Known:
    """A source, and what was read of it last."""

    name: str
    lake: Lake
    source: Source | None
    log: OpsLog
    observed: Observed | None = None
    reader: Reader | None = None
    asked: float = 0.0
    generation: int = 1
    newest: dict[int, int] = field(default_factory=dict)

    def refresh(self) -> None:
        """Forget what has changed since."""
        if self.log.refresh():
            self.observed = self.reader = None
        if self.log.generation != self.generation:
            self.generation, self.newest = self.log.generation, {}


class LakePages:
    """Reads the sources of a configuration, each in its lake, or else all that a lake knows."""

    def __init__(self, config: Config | None, lake: str | None) -> None:
        self.spark: SparkSession = get_session()
        self._root = Lake(lake or "./lake")
        self._configured = selected_sources(config, (), lake) if config and config.sources else None
        self._known: dict[str, _Known] = {}

    @property
    def where(self) -> str:
        """The lakes that are read."""
        lakes = [one.lake for one in self._configured or ()] or [self._root]
        return ", ".join(sorted({lake.catalog or lake.root for lake in lakes}))

    def close(self) -> None:
        """End Spark; nothing can be read after it."""
        self.spark.stop()

    def observed(self) -> list[Observed]:
        return [self._observe(self._refreshed(name)) for name in self._names()]

    def table(self, source: str, table: str) -> TableRows:
        reader = self._reader(source)
        entry = self._entry(reader, table)
        lines = list(reader.live((entry.database, entry.table), PAGE + 1))
        rows = [json.loads(line) for line in lines[:PAGE]]
        names = [column.name for column in reader.columns((entry.database, entry.table))]
        return TableRows(
            source,
            reader.settings.order,
            entry.name,
            entry.gold,
            version=entry.version,
            state=entry.state,
            since=entry.since,
            why=entry.why,
            notes=entry.notes,
            names=tuple(map(".".join, entry.names)),
            key=key_columns(reader, entry),
            columns=tuple(dict.fromkeys([*names, *(name for row in rows for name in row)])),
            rows=tuple(rows),
            more=len(lines) > PAGE,
            statements=_statements(reader, entry),
        )

    def row(self, source: str, table: str, key: tuple[str, ...], after: After | None) -> RowHistory:
        reader = self._reader(source)
        entry = self._entry(reader, table)
        names = key_columns(reader, entry)
        if len(names) != len(key):
            wanted = ", ".join(names) or "gold has none as it is"
            raise NotThere(f"{table}: expected a value for each column of the key ({wanted}), got {len(key)}")
        changes = shown_changes(reader, entry, of_row(reader, entry, key), after, number=PAGE + 1)
        return RowHistory(
            source,
            reader.settings.order,
            entry.name,
            tuple(zip(names, key, strict=True)),
            after=after,
            changes=tuple(changes[:PAGE]),
            more=len(changes) > PAGE,
        )

    def letters(self, source: str, code: str | None, page: int) -> Letters:
        known = self._source(source)
        frame = read_silver(self.spark, known.lake, source, "dead_letters")
        chosen = frame.where(F.col("code") == code) if code else frame
        rows = (
            chosen.withColumn("open", is_open(known.log))
            .orderBy(F.col("batch").desc(), F.col("origin").desc())
            .offset(page * PAGE)
            .limit(PAGE + 1)
            .collect()
        )
        letters = tuple(map(_letter, rows[:PAGE]))
        return Letters(source, code, page, letters, more=len(rows) > PAGE)

    def letter(self, source: str, place: Place) -> LetterBytes:
        known = self._source(source)
        letters = (
            read_silver(self.spark, known.lake, source, "dead_letters")
            .withColumn("open", is_open(known.log))
            .where(F.col("origin.topic") == place.topic)
            .where(F.coalesce("origin.incarnation", F.lit("")) == place.incarnation)
            .where((F.col("origin.partition") == place.partition) & (F.col("origin.offset") == place.offset))
            .orderBy("origin.index")
            .limit(PAGE)
            .collect()
        )
        if not letters:
            raise NotThere(f"{source}: expected a dead letter of that record, found none")
        found = self._record(known, place)
        parts = [_bytes(found.key_begin, found.key_size), _bytes(found.value_begin, found.value_size)]
        headers = tuple((one.key, _bytes(one.value, one.size)) for one in found.headers or ())
        return LetterBytes(
            source,
            origin({**letters[0].origin.asDict(), "index": None}),
            tuple(map(_letter, letters)),
            found.timestamp,
            key=parts[0],
            value=parts[1],
            headers=headers,
        )

    def _record(self, known: _Known, place: Place) -> Any:
        """A record of bronze with the beginnings of its parts; its bytes are cut where they are read."""
        chosen = Chosen(place.topic, place.partition, place.offset, place.offset)
        header = "named_struct('key', h.key, 'value', substring(h.value, 1, {0}), 'size', length(h.value))"
        headers = f"transform(slice(headers, 1, {HEADERS}), h -> {header.format(SHOWN)}) AS headers"
        row = (
            records(self.spark, known.lake, known.name, chosen)
            .where(F.coalesce("incarnation", F.lit("")) == place.incarnation)
            .select(
                "timestamp",
                *(F.substring(name, 1, SHOWN).alias(f"{name}_begin") for name in ("key", "value")),
                *(F.length(name).alias(f"{name}_size") for name in ("key", "value")),
                F.expr(headers),
            )
            .first()
        )
        if row is None:
            raise NotThere(f"{known.name}: expected bronze to have {chosen}, found no such record")
        return row

    def manifests(self, source: str, before: int | None) -> Manifests:
        known = self._source(source)
        found = [one for one in _published(known.log.whole()) if before is None or one.number < before]
        shown = tuple(reversed(found[-PAGE:]))
        return Manifests(source, self._settings(known).order, shown, more=len(found) > PAGE)

    def difference(self, source: str, first: int, second: int) -> Difference:
        known = self._source(source)
        log = known.log.whole()
        ends = [_manifest(log, number) for number in (first, second)]
        tables = _table_changes(log, ends)
        rows = (
            read_silver(self.spark, known.lake, source, "schema_changes")
            .where(between(ends[0][1].watermark, ends[1][1].watermark) & (F.col("kind") == "ddl"))
            .orderBy("position")
            .select("position", "database", "table", "ddl")
            .limit(PAGE + 1)
            .collect()
        )
        statements = tuple(Statement(tuple(row.position), table_of(row), row.ddl) for row in rows[:PAGE])
        return Difference(
            source,
            self._settings(known).order,
            ends[0][0],
            ends[1][0],
            tables=tuple(one for one in tables if one is not None),
            same=tables.count(None),
            statements=statements,
            more=len(rows) > PAGE,
        )

    def changes(self, source: str, table: str, ends: tuple[int, int], after: After | None) -> ChangesBetween:
        reader = self._reader(source)
        entry = self._entry(reader, table)
        log = reader.log.whole()
        low, high = (_manifest(log, number)[1].watermark for number in ends)
        changes = shown_changes(reader, entry, between(low, high), after, number=PAGE + 1)
        return ChangesBetween(
            source,
            reader.settings.order,
            entry.name,
            first=ends[0],
            second=ends[1],
            after=after,
            changes=tuple(changes[:PAGE]),
            more=len(changes) > PAGE,
        )

    def _names(self) -> list[str]:
        if self._configured is not None:
            return [one.name for one in self._configured]
        return list(sources(self.spark, self._root))

    def _source(self, name: str) -> _Known:
        """A source as it is now; NotThere where there is none of that name."""
        if name not in self._known and name not in self._names():
            raise NotThere(f"{name[:200]}: expected a source of {self.where}, found none")
        return self._refreshed(name)

    def _refreshed(self, name: str) -> _Known:
        if name not in self._known:
            configured = next((one for one in self._configured or () if one.name == name), None)
            lake = configured.lake if configured else self._root
            self._known[name] = _Known(name, lake, configured, OpsLog(self.spark, lake, name))
        self._known[name].refresh()
        return self._known[name]

    def _observe(self, known: _Known) -> Observed:
        now = time.time()
        if known.observed is None:
            known.asked = now
            known.observed = observe(self.spark, known.lake, known.name, known.source, newest=known.newest)
        elif now - known.asked > (LAG_AWAY if "broker" in known.observed["status"] else LAG):
            status = with_lag(known.observed["status"], known.source, known.log)
            known.observed, known.asked = {**known.observed, "status": status}, now
        return {**known.observed, "now": int(now * 1000)}

    def _settings(self, known: _Known) -> SourceSettings:
        found = sources(self.spark, known.lake).get(known.name)
        if found is None:
            raise NotThere(f"{known.name}: it has not run yet; `lakehouse run all --select {known.name}`")
        return found

    def _reader(self, source: str) -> Reader:
        known = self._source(source)
        if known.reader is None:
            known.reader = Reader(self.spark, known.lake, source, self._settings(known))
        return known.reader

    def _entry(self, reader: Reader, table: str) -> TableEntry:
        found = next((one for one in reader.entries().values() if one.name == table), None)
        if found is None:
            raise NotThere(f"{table[:200]}: expected a gold table of {reader.source}, found none")
        return found


def _statements(reader: Reader, entry: TableEntry) -> tuple[Statement, ...]:
    """The last statements of a table's lineages, oldest first."""
    found = [
        Statement(
            step.position,
            ".".join(lineage.name_at(step.position) or ()),
            step.ddl,
            tuple(type(effect).__name__ for effect in step.effects),
        )
        for lineage in reader.history.lineages
        if lineage.id in entry.lineages
        for step in lineage.steps
    ]
    return tuple(sorted(found, key=lambda one: one.position)[-PAGE:])


def _letter(row: Row) -> Letter:
    found = row.origin.asDict()
    place = Place(found["topic"], found["incarnation"] or "", found["partition"], found["offset"])
    return Letter(row.code, row.message, table_of(row), origin(found), place=place, is_open=row.open)


def _bytes(beginning: Any, size: int | None) -> Bytes | None:
    return None if beginning is None or size is None else Bytes(bytes(beginning), size)


def _published(log: OpsLog) -> list[Published]:
    """All manifests, oldest first."""
    return [
        _as_published(one.seq, one.at, one.record) for one in log.records if isinstance(one.record, Manifest)
    ]


def _as_published(number: int, at: int, manifest: Manifest) -> Published:
    words = [entry.state for entry in manifest.tables]
    states = {word: words.count(word) for word in sorted(set(words))}
    return Published(number, at, manifest.batch, manifest.watermark, states=states)


def _manifest(log: OpsLog, number: int) -> tuple[Published, Manifest]:
    for one in log.records:
        if one.seq == number and isinstance(one.record, Manifest):
            return _as_published(one.seq, one.at, one.record), one.record
    raise NotThere(f"{log.source}: expected a manifest of number {number}, found none")


def _table_changes(log: OpsLog, manifests: Sequence[tuple[Published, Manifest]]) -> list[TableChange | None]:
    """Each table of either manifest: what is different, or None."""
    ends = [{entry.lineage: entry for entry in one.tables} for _, one in manifests]
    counts = [_changes_by_name(log, *one) for one in manifests]
    lineages = dict.fromkeys([*ends[1], *ends[0]])
    return [_table_change([end.get(one) for end in ends], counts) for one in lineages]


def _table_change(
    ends: Sequence[TableEntry | None], counts: Sequence[dict[tuple[str, str], int]]
) -> TableChange | None:
    entry = ends[1] or ends[0]
    assert entry is not None
    changes = sum(counts[1].get(name, 0) - counts[0].get(name, 0) for name in entry.names)
    if ends[0] == ends[1] and not changes:
        return None
    return TableChange(
        entry.name,
        (ends[0] and ends[0].state, ends[1] and ends[1].state),  # type: ignore[arg-type]  # a state is not ""
        (ends[0] and ends[0].version, ends[1] and ends[1].version),  # type: ignore[arg-type]
        entry.why or "",
        # a raised floor leaves fewer
        changes=max(0, changes),
    )


def _changes_by_name(log: OpsLog, published: Published, manifest: Manifest) -> dict[tuple[str, str], int]:
    """How many changes silver had by table, when a manifest's batch was done: a later generation's batches
    have the same numbers.
    """
    before = (one for one in reversed(log.records) if one.seq < published.number and one.kind == Done.kind)
    done = (one for each in before if isinstance(one := each.record, Done) and one.batch <= manifest.batch)
    last = next(done, None)
    return {} if last is None else {size.name: size.n for size in last.tables}
