"""The whole path in plain Python over events in memory: decode, dedupe, history, fold. No Spark, so it takes
milliseconds.

It calls the same functions that the Spark layers call, and is what property tests and recordings are run
against first.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

import msgspec

from lakehouse.ddl.policy import Rules
from lakehouse.discovery.inspect import events_of
from lakehouse.events import (
    MIN_POSITION,
    READINGS,
    SETTLED,
    SNAPSHOT_FLAG,
    SNAPSHOT_TOPIC,
    TABLE_SNAPSHOT,
    WRITTEN_AGAIN,
    Message,
    Position,
    RowChange,
    SchemaChange,
    Watermark,
)
from lakehouse.fold.continuity import Breaks
from lakehouse.fold.row_edits import Change
from lakehouse.fold.upcast import Upstream
from lakehouse.formats import FORMATS, order_of
from lakehouse.formats.debezium.records import transaction_end
from lakehouse.formats.debezium.transactions import transaction_row
from lakehouse.formats.wire_json import nests_too_deep
from lakehouse.gold.columns import gold_columns, type_rows
from lakehouse.gold.modes import Clock, Mode
from lakehouse.gold.options import PLAIN, GoldOptions
from lakehouse.gold.own_columns import own_columns
from lakehouse.gold.shards import options_of
from lakehouse.gold.upstream import upstream_of
from lakehouse.lineage import History, Lineage, Name, key_ids
from lakehouse.ops.progress import Transactions
from lakehouse.schema_history.build import build
from lakehouse.schema_history.ordering_problems import SentStatement as Statement
from lakehouse.schema_history.ordering_problems import Spread, report_disorder, report_repeats
from lakehouse.schema_history.schema_records import Record, Shape, shape_of_rows
from lakehouse.silver.event_rows import begin_position
from lakehouse.silver.identity import RunCounter, image_hash, split_keyless
from lakehouse.silver.redelivery import Aligner, rule_of, sent
from lakehouse.silver.transaction_watermark import TransactionEvents, aborted, advance

TSO = Clock(by_commit=True, tso=True)


class Memory:
    """Silver in memory: distinct changes, schema records and watermarks of one feed. `breaks` are what the
    last tables that were asked for have of changes that do not fit those before them, `problems` what they
    are known to lack.
    """

    def __init__(
        self,
        format_: str,
        options: Mapping[str, str] | None = None,
        *,
        tidb: bool = True,
        row_ids: bool = False,
    ) -> None:
        self.format, self.options, self.tidb = format_, dict(options or {}), tidb
        self.row_ids = row_ids
        self.changes: dict[Any, RowChange] = {}
        self.records: dict[Any, Record] = {}
        self.statements: dict[Any, tuple[str, int]] = {}
        self.times: dict[Any, int | None] = {}
        self.marks: dict[tuple[str, int], Position] = {}
        self.runs: dict[tuple[str, int], RunCounter] = {}
        self.file: int | None = None
        self.dead: list[Any] = []
        self.aligners: dict[tuple[str, int], Aligner] = {}
        self.transactions: Transactions | None = None
        self.rules = self._ruled(Rules())
        self.breaks: dict[str, Breaks] = {}
        self.problems: dict[str, frozenset[str]] = {}
        self._told: tuple[History, dict[str, list[Change]]] | None = None

    def add(self, messages: Iterable[Message]) -> Self:
        self._told = None
        messages = self._new(list(messages))
        told = TransactionEvents()
        for message, event in events_of(self._noted(messages, told), self.format, self.options):
            if isinstance(event, SchemaChange) and event.kind == "ddl":
                told.ddl(event.position, event.ddl or "", event.parts)
            elif isinstance(event, SchemaChange) and event.kind == "snapshot":
                told.snapshot_statement(event.position, event.ddl)
            elif isinstance(event, RowChange):
                told.row(event.flags, event.position)
            if (
                self.format == "debezium"
                and message.topic != SNAPSHOT_TOPIC
                and not isinstance(event, RowChange)
                and (row := transaction_row(message)) is not None
            ):
                told.row(row.flags, row.position)
                if not row.flags:
                    told.row_without_change(*row[:3])
            self.file = message.offset if FORMATS[self.format].reads_files else None
            self._event((message.topic, message.partition), event)
        self.transactions = advance(self.transactions, told, settled=True)
        return self

    def _new(self, messages: list[Message]) -> list[Message]:
        """Without what a feed in order of arrival had sent before."""
        rule = rule_of(self.format, order_of(self.format, self.options) if self.tidb else "arrival")
        if rule is None:
            return messages
        copies: set[int] = set()
        for place in dict.fromkeys((message.topic, message.partition) for message in messages):
            mine = [
                number
                for number, message in enumerate(messages)
                if (message.topic, message.partition) == place
            ]
            told = self.aligners.setdefault(place, Aligner(rule)).copies(
                [sent(messages[number], rule) for number in mine]
            )
            copies |= {number for number, copy in zip(mine, told, strict=True) if copy}
        return [message for number, message in enumerate(messages) if number not in copies]

    def _noted(self, messages: Iterable[Message], told: TransactionEvents) -> Iterable[Message]:
        for message in messages:
            if message.topic == SNAPSHOT_TOPIC:
                yield message
                continue
            place = (message.topic, message.partition)
            self.marks.setdefault(place, MIN_POSITION)
            if self.format == "debezium" and (end := transaction_end(message)) is not None:
                told.end(end.id, end.event_count, begin_position(message, end))
            yield message

    def _event(self, place: tuple[str, int], event: Any) -> None:
        if isinstance(event, RowChange | SchemaChange) and _is_too_deep(event):
            self.dead.append(event)
        elif isinstance(event, RowChange):
            for change in split_keyless(event) if self.tidb else [event]:
                self._change(place, change)
        elif isinstance(event, SchemaChange):
            key = tuple(event.primary_key) if event.primary_key else None
            record = Record(
                event.kind,
                event.database,
                event.table,
                event.position,
                event.ddl,
                event.columns,
                key,
                event.commit_ts,
            )
            self.records[event.position, event.database, event.ddl, repr(event.columns)] = record
            self.statements[event.position, event.ddl] = place
            self.times[event.position, event.ddl] = event.commit_ts
        elif isinstance(event, Watermark):
            self.marks[place] = max(self.marks[place], event.position)
            self.runs.setdefault(place, RunCounter()).resolved(event.resolved_ts or 0)
        else:
            self.dead.append(event)

    def _change(self, place: tuple[str, int], change: RowChange) -> None:
        row_id = ""
        told = self.row_ids or change.op == "snapshot"
        if told and change.row_id is not None and not change.key_names:
            row_id = change.row_id
        elif self.tidb and not change.key_names:
            image = change.before if change.after is None else change.after
            assert image is not None
            half = f"{change.position[2]}:{image_hash(image)}"
            table = f"{change.database}.{change.table}.{change.physical_table}"
            run = self.runs.setdefault(place, RunCounter())
            n, again = run.number(table, change.commit_ts or 0, half, self.file)
            row_id = f"{half}:{n}"
            if again:
                change = msgspec.structs.replace(change, flags=(*change.flags, WRITTEN_AGAIN))
        where = () if self.tidb else place
        physical = None if change.key else change.physical_table
        self.changes.setdefault(
            (change.database, change.table, str(change.key), change.position, row_id, physical, where), change
        )

    @property
    def watermark(self) -> Position:
        if self.format == "debezium":
            return (self.transactions and self.transactions.whole) or MIN_POSITION
        return min(self.marks.values(), default=MIN_POSITION)

    @property
    def reach(self) -> Position:
        return max(
            [change.position for change in self.changes.values()]
            + [record.position for record in self.records.values() if record.kind != SETTLED]
        )

    @property
    def upstream(self) -> Upstream:
        return upstream_of(self.format, self.options)

    def history(self) -> History:
        snapshots = list(self.transactions.snapshots) if self.transactions else []
        arrival = self.format == "canal" or (self.format == "ticdc-canal-json" and not self.tidb)
        scattered = arrival and len(self.marks) > 1
        virtual = not self.format.startswith("ticdc")
        history = build(
            self.records.values(), self, self.rules, snapshots, ordered=not scattered, virtual=virtual
        )
        if scattered:
            report_disorder(history, self.spread())
        if arrival or (self.format == "ticdc-storage" and not self.tidb):
            told = self.records.values()
            report_repeats(
                history,
                [
                    Statement(r.position, r.database, r.table, r.ddl, self.times[r.position, r.ddl])
                    for r in told
                    if r.kind not in READINGS
                ],
            )
        return history

    def spread(self) -> Spread:
        rows: dict[Name, set[tuple[str, int]]] = {}
        keys: dict[Any, set[Any]] = {}
        for (database, table, key, *_, place), change in self.changes.items():
            rows.setdefault((database, table), set()).add(place)
            if change.key:
                keys.setdefault((database, table, key), set()).add(place)
        moved = Counter((database, table) for (database, table, _), places in keys.items() if len(places) > 1)
        messages = {(one.position, one.ddl): (one.database, one.table) for one in self.records.values()}
        return Spread(rows, self.statements, moved, messages)

    def ruled(self, rules: Rules) -> "Memory":
        """From now on DDLs are taken as these rules say."""
        self.rules, self._told = self._ruled(rules), None
        return self

    def _ruled(self, rules: Rules) -> Rules:
        told = self.upstream
        return replace(
            rules,
            charset=told.charset,
            mixes_names=told.mixes_names,
            hides_sessions=told.hides_sessions,
            tells_all=FORMATS[self.format].tells_all,
            server=told.server,
        )

    # --- Sightings ---

    def _rows(self, name: Name, low: Position, high: Position | None) -> list[RowChange]:
        rows = [
            c
            for c in self.changes.values()
            if (c.database, c.table) == name and c.position > low and (high is None or c.position < high)
        ]
        return sorted(rows, key=lambda change: change.position)

    def names(self) -> list[Name]:
        return sorted({(change.database, change.table) for change in self.changes.values()})

    def maybe(self, name: Name, low: Position, high: Position | None) -> bool:
        return bool(self._rows(name, low, high))

    def shape(self, name: Name, low: Position, high: Position | None) -> Shape | None:
        return shape_of_rows(
            (row.types, row.after or row.before or {}, row.key_names, row.position)
            for row in self._rows(name, low, high)
        )

    def key_names(self, name: Name) -> tuple[str, ...]:
        return next(
            (c.key_names for c in self.changes.values() if (c.database, c.table) == name and c.key_names), ()
        )

    # --- gold ---

    def _lineages(self) -> tuple[History, dict[str, list[Change]]]:
        """The history, and every lineage's changes; kept until more messages come."""
        if self._told is None:
            history = self.history()
            mine: dict[str, list[Change]] = {}
            void = {position[:4] for position in aborted(self.transactions)}
            whole = {
                (r.database, r.table, r.position) for r in self.records.values() if r.kind == TABLE_SNAPSHOT
            }
            for change in self.changes.values():
                snapshot = (change.database, change.table, (*change.position[:4], 0, 0))
                if SNAPSHOT_FLAG in change.flags and snapshot not in whole:
                    continue
                if (
                    change.op == "snapshot"
                    and change.position[:4] in void
                    and "snapshot=incremental" not in change.flags
                ):
                    continue
                owner = history.owner((change.database, change.table), change.position)
                if owner is not None:
                    told = Change(
                        change.position,
                        change.op,
                        change.before,
                        change.after,
                        change.encoding,
                        change.flags,
                        change.commit_ts,
                    )
                    mine.setdefault(owner.id, []).append(told)
            self._told = history, mine
        return self._told

    def lineages(self) -> History:
        """The history, kept until more messages come."""
        return self._lineages()[0]

    def tables(
        self, at: Position, options: Mapping[Name, GoldOptions] | None = None, clock: Clock = TSO
    ) -> dict[str, list[dict[str, Any]]]:
        """Every table right after `at`, as `lakehouse show` prints its rows."""
        logs = frozenset(name for name, one in (options or {}).items() if one.goes_on)
        if logs != self.rules.logs:
            self.ruled(replace(self.rules, logs=logs))
        self.breaks, self.problems = {}, {}
        history, changes = self._lineages()
        return {
            ".".join(name): self.rows(
                lineage, changes.get(lineage.id, ()), at, options_of(lineage, options or {}), clock
            )
            for name, lineage in history.live(at).items()
        }

    def rows(
        self,
        lineage: Lineage,
        changes: Iterable[Change],
        at: Position,
        options: GoldOptions = PLAIN,
        clock: Clock = TSO,
    ) -> list[dict[str, Any]]:
        mode = Mode(lineage, at, self.upstream, clock, options)
        schema = lineage.schema_at((*at[:5], at[5] + 1))
        columns = gold_columns(schema, virtual=not self.format.startswith("ticdc"), options=options)
        columns += own_columns(options, [column.name for column in columns])
        found = mode.rows(changes)
        if found.problems:
            self.problems[".".join(lineage.name_at(at) or ("", lineage.id))] = found.problems
        if found.breaks.first is not None:
            self.breaks[".".join(lineage.name_at(at) or ("", lineage.id))] = found.breaks
        return printed(found.rows, columns, lineage, at)


def printed(rows: list[Any], columns: list[Any], lineage: Any, at: Position) -> list[dict[str, Any]]:
    typed = type_rows(rows, columns)
    forms = {column.name: column.to_canonical for column in columns}
    lines = []
    for index in range(typed.count):
        line = {
            name: None if values[index] is None else forms[name](values[index])
            for name, values in typed.columns.items()
        }
        line.update({name: values[index] for name, values in typed.raw.items() if values[index] is not None})
        lines.append(line)
    ids = key_ids(lineage, lineage.step_at((*at[:5], at[5] + 1)))
    names = [column.column.name for column in columns if column.column.id in ids]
    return sorted(lines, key=lambda line: str([line[name] for name in names] or line))


def _is_too_deep(event: RowChange | SchemaChange) -> bool:
    """What silver keeps no values of (lakehouse/spark/silver/decode.py)."""
    said = [event.before, event.after, list(event.key)] if isinstance(event, RowChange) else [event.columns]
    try:
        return any(nests_too_deep(msgspec.json.encode(value)) for value in said)
    except RecursionError:
        return True
