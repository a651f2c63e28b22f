"""What a manifest says and what its tables hold, against the model in memory and the database's own tables.

    differences(found, model, …) → the differences as text, each with the table's program

Of each table: its columns with their types, its rows, its state and its reason. The model decodes and folds
the messages that had arrived by the run; the database knows its tables at the watermark where that is a
commit.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lakehouse.ddl.policy import Rules
from lakehouse.events import MIN_POSITION, Position, just_above
from lakehouse.fold.upcast import lost_since
from lakehouse.formats import FORMATS
from lakehouse.gold.columns import GoldColumn, gold_columns
from lakehouse.gold.modes import Mode
from lakehouse.gold.options import GoldOptions
from lakehouse.gold.own_columns import own_columns
from lakehouse.gold.shards import options_of
from lakehouse.lineage import Lineage, Name
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.spark.gold.settings import GoldSettings
from lakehouse.spark.source import Source
from tests.oracle.check import Judged, compare
from tests.oracle.pipeline.deliver import Delivery
from tests.oracle.pipeline.delta_files import Snapshot, read_delta
from tests.oracle.program import ZONE
from tests.oracle.runner import State
from tests.support.engine import Memory, printed

EXACT: tuple[str, str | None] = ("exact", None)
Line = dict[str, Any]
Place = tuple[str, str]
Options = Callable[[Lineage], GoldOptions]


class Difference(NamedTuple):
    """One difference of a source, which is `format`'s. `table` is None where it is the whole source's."""

    source: str
    format: str
    table: Name | None
    what: str

    def __str__(self) -> str:
        return f"{self.source}: {'.'.join(self.table) + ': ' if self.table else ''}{self.what}"


class Model(Memory):
    """The engine in memory, of a source with its YAMLs."""

    gold: GoldSettings

    def void(self, above: int) -> None:
        """The upstream was restored: what it had told above that commit time no longer holds."""
        self.changes = {key: one for key, one in self.changes.items() if one.position[1] <= above}
        self.records = {key: one for key, one in self.records.items() if one.position[1] <= above}

    def all_tables(self, at: Position, options: Options) -> dict[str, list[Line]]:
        """Every table right after `at`, in its mode."""
        history, changes = self._lineages()
        return {
            ".".join(name): self.rows(one, changes.get(one.id, ()), at, options(one), self.gold.clock)
            for name, one in history.live(at).items()
        }

    def options_at(self, at: Position) -> Options:
        """The options of the tables that are published at `at`."""
        return lambda lineage: options_of(lineage, self.gold.options, at)


def model_of(delivery: Delivery, run: int, source: Source) -> Model:
    """The model of what has arrived by a run whose files are written, read as the source's settings say."""
    messages = delivery.read(run, source.silver.options)
    tidb = delivery.plan.decoder.startswith("ticdc")
    model = Model(delivery.plan.decoder, source.silver.options, tidb=tidb, row_ids=delivery.row_ids)
    model.gold = source.gold
    model.ruled(Rules(logs=source.gold.said.rules.logs))
    restore = delivery.restore
    if restore is None or run < restore.run:
        return model.add(messages)
    model.add(message for message in messages if message.epoch == 0)
    model.void(restore.to)
    return model.add(message for message in messages if message.epoch > 0)


def arrived_at(model: Model) -> Position:
    """Up to where everything has arrived; what has arrived, where the feed does not say."""
    return model.reach if model.gold.consistency == "eventual" else model.watermark


def differences(
    delivery: Delivery, run: int, manifest: Manifest, before: Position, *, model: Model, gold: Path
) -> Iterator[Difference]:
    """All differences of the manifest of a run; `before` is the watermark of the one before it."""
    name = delivery.plan.name, delivery.plan.format
    at = max(arrived_at(model), before)
    if manifest.watermark != at:
        yield Difference(*name, None, f"watermark: expected {at}, got {manifest.watermark}")
        return
    if model.dead:
        yield Difference(*name, None, f"the model has a dead letter: {model.dead[0]}")
    problems = [text for _, text in model.lineages().problems]
    if list(manifest.problems) != problems:
        yield Difference(*name, None, f"problems: expected {problems}, got {list(manifest.problems)}")
    if at > MIN_POSITION:
        yield from _tables(name, manifest, model, gold)
    truth = truth_at(delivery, run, at)
    if truth is not None:
        yield from against_truth(name, model, at, truth)


def _tables(name: Place, manifest: Manifest, model: Model, gold: Path) -> Iterator[Difference]:
    at = manifest.watermark
    live = model.lineages().live(at)
    entries = {(one.database, one.table): one for one in manifest.tables if one.state != "retired"}
    for table in sorted(live.keys() - entries.keys()):
        yield Difference(*name, table, "expected the table, gold has none")
    for table in sorted(entries.keys() - live.keys()):
        yield Difference(*name, table, "expected no such table, gold has one")
    for table in sorted(live.keys() & entries.keys()):
        entry = entries[table]
        for what in table_differences(
            model, live[table], at, entry, read_delta(gold / entry.gold, entry.version)
        ):
            yield Difference(*name, table, what)


def table_differences(
    model: Model, lineage: Lineage, at: Position, entry: TableEntry, found: Snapshot
) -> Iterator[str]:
    options = model.options_at(at)(lineage)
    columns = columns_of(model, lineage, at, options)
    companions = {column.companion for column in columns if column.companion}
    has = [(field.name, field.type) for field in found.fields if field.name not in companions]
    wants = [(column.name, column.spark) for column in columns]
    if has != wants:
        yield f"columns: expected {wants}, got {has}"
        return
    changes = model._lineages()[1].get(lineage.id, [])
    mode = Mode(lineage, at, model.upstream, model.gold.clock, options)
    told = mode.rows(changes)
    expected = _bag(printed(told.rows, columns, lineage, at))
    got = _bag(_line(row, columns, companions) for row in found.rows)
    if expected != got:
        yield f"rows: missing {_few(expected - got)}; too many {_few(got - expected)}"
    lacks = [(lost_since(lineage, text, at) or at, text) for text in sorted(told.problems)]
    lacks += [(at, text) for text in _undeclared(told.unknown)]
    state, why = state_of(lineage, at, lacks)
    if (entry.state, entry.why) != (state, why):
        yield f"state: expected {state} ({why}), got {entry.state} ({entry.why})"


def columns_of(model: Model, lineage: Lineage, at: Position, options: GoldOptions) -> list[GoldColumn]:
    """Gold's columns: the source's, and the mode's own behind them."""
    schema = lineage.schema_at(just_above(at))
    columns = gold_columns(schema, virtual=model.gold.virtual, options=options)
    return [*columns, *own_columns(options, [column.name for column in columns])]


def state_of(lineage: Lineage, at: Position, lacks: list[tuple[Position, str]]) -> tuple[str, str | None]:
    """The state and the reason that a table should have."""
    if lineage.held is not None and lineage.held.position <= at:
        return "behind", f"held by a DDL: {lineage.held.why}"
    missing = lineage.incomplete_at(at, lacks)
    return EXACT if missing is None else ("incomplete", missing[1])


def _undeclared(unknown: dict[str, Position]) -> list[str]:
    return [f"rows have columns that no DDL has added: {', '.join(sorted(unknown))}"] if unknown else []


def _line(row: Line, columns: list[GoldColumn], companions: set[str]) -> Line:
    line = {
        column.name: None if row[column.name] is None else column.to_canonical(row[column.name])
        for column in columns
    }
    raws = {name: row[name] for name in companions if row.get(name) is not None}
    return {**line, **raws}


def _bag(lines: Any) -> Counter[str]:
    return Counter(json.dumps(line, sort_keys=True, ensure_ascii=False) for line in lines)


def _few(lines: Counter[str]) -> str:
    shown = " | ".join(sorted(lines.elements())[:3])
    return f"{lines.total()} ({shown[:600]})" if lines else "none"


def truth_at(delivery: Delivery, run: int, at: Position) -> State | None:
    """The database's tables right after `at` as a run knows them; None where that is within a commit."""
    if (restore := delivery.restore) is not None and run >= restore.run:
        if at[0] > 0:
            return restore.state_at(at[1])
        return delivery.plan.history.state_at(min(at[1], restore.to))
    if not delivery.log:
        return delivery.plan.history.state_at(at[1])
    # Canal's flat messages are at offsets, the others at a file and a place in it
    size = 2 if delivery.plan.format == "canal" else 3
    arrived = [(ts, place[:size] <= at[:size]) for ts, place in delivery.log]
    last = max((ts for ts, here in arrived if here), default=0)
    whole = all(here for ts, here in arrived if ts == last)
    return delivery.plan.history.state_at(last) if whole else None


def against_truth(name: Place, model: Model, at: Position, truth: State) -> Iterator[Difference]:
    """The model itself is held to the database, so that a mistake of both is seen. Gold does not know the
    zone of a server whose producer sends instants, and says so of its conversions: here they are made in it.
    """
    options = {"time_zone": ZONE, "server": FORMATS[model.format].producer.server}
    silver = Memory(model.format)
    vars(silver).update({**vars(model), "options": options})
    try:
        compare(silver, at, truth, Judged())
    except AssertionError as error:
        yield Difference(*name, None, f"model and database: {error}")
