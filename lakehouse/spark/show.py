"""Gold tables as JSON lines in silver's value encoding, live or as of any position up to the watermark."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.carry import Row, upstream_of
from lakehouse.errors import LakehouseError
from lakehouse.events import Position
from lakehouse.fold import Change, finish, fold, key_ids
from lakehouse.lineage import History, Lineage, Name
from lakehouse.spark.changes import between, by_lineage, collect_changes, not_aborted, not_void
from lakehouse.spark.history import load_history
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops_log import OpsLog
from lakehouse.spark.registry import sources
from lakehouse.spark.session import get_session
from lakehouse.spark.silver import read_silver
from lakehouse.typed import GoldColumn, gold_columns, type_rows


def show_all(root: str, folder: Path, ats: list[str]) -> list[Path]:
    """Write every live table as `db.table.jsonl` into `folder`; with several `ats`, into a folder of its own per moment."""
    spark, lake = get_session(), Lake(root)
    written = []
    folder.mkdir(parents=True, exist_ok=True)
    for source, settings in sources(spark, lake).items():
        reader = Reader(spark, lake, source, settings)
        if not ats:
            written += [write_lines(folder, name, reader.live(name)) for name in reader.live_names()]
        for at in ats:
            target = folder / at if len(ats) > 1 else folder
            target.mkdir(parents=True, exist_ok=True)
            written += [write_lines(target, name, lines) for name, lines in reader.at(at)]
    return written


def write_lines(folder: Path, name: Name, lines: Iterator[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name[0]}.{name[1]}.jsonl".replace("/", "_")
    with path.open("w", encoding="utf-8") as out:
        out.writelines(line + "\n" for line in lines)
    return path


def show_table(root: str, table: str, layer: str, at: str | None, limit: int | None, as_json: bool, out: TextIO) -> None:
    """Print one table's rows, or its changes (`layer` silver), as JSON lines or as text."""
    spark, lake = get_session(), Lake(root)
    for source, settings in sources(spark, lake).items():
        reader = Reader(spark, lake, source, settings)
        lines = reader.find(table, at) if layer == "gold" else reader.changes(table, at)
        if lines is not None:
            out.writelines((line if as_json else as_text(line)) + "\n" for line in islice(lines, limit))
            return
    raise LakehouseError(f"{table}: expected a gold table of {lake.root}, found none; `lakehouse status` lists them")


def as_text(line: str) -> str:
    """A JSON line as `name=value` pairs."""
    return "  ".join(f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in json.loads(line).items())


class Reader:
    """Reads one source's gold: published tables from Delta, any other moment by folding silver."""

    def __init__(self, spark: SparkSession, lake: Lake, source: str, settings: dict[str, Any]) -> None:
        self.spark, self.lake, self.source, self.settings = spark, lake, source, settings
        self.log = OpsLog(spark, lake, source).load()
        self.manifest = self.log.last("manifest")
        self.done = self.log.last("done")
        self._history: History | None = None
        self._changes: dict[str, list[tuple[Change, int]]] | None = None

    @property
    def history(self) -> History:
        if self._history is None:
            assert self.done is not None
            self._history = load_history(self.spark, self.lake, self.source, self.done, self.log, self.settings)
        return self._history

    def entries(self) -> dict[Name, dict[str, Any]]:
        entries = (self.manifest or {}).get("tables", [])
        return {(entry["database"], entry["table"]): entry for entry in entries if entry["state"] != "retired"}

    def live_names(self) -> list[Name]:
        return sorted(self.entries())

    def find(self, table: str, at: str | None) -> Iterator[str] | None:
        if at is None:
            return next((self.live(name) for name in self.entries() if ".".join(name) == table), None)
        return next((lines for name, lines in self.at(at) if ".".join(name) == table), None)

    def live(self, name: Name) -> Iterator[str]:
        """The rows of the Delta table, at the version that the manifest names."""
        entry = self.entries()[name]
        lineage = next(lineage for lineage in self.history.lineages if lineage.id == entry["lineage"])
        at = self._watermark() if entry["state"] != "behind" else tuple(entry["since"])
        columns = self._columns(lineage, at)
        frame = self.lake.read(self.spark, "gold", entry["gold"], entry["version"])
        raws = [column.companion for column in columns if column.companion in frame.columns]
        names = [column.name for column in columns]
        table = frame.select(*[F.col(_quoted(held)).alias(f"c{i}") for i, held in enumerate([*names, *raws])]).toArrow()
        values = [table.column(i).to_pylist() for i in range(len(names) + len(raws))]
        rows = [dict(zip([*names, *raws], row, strict=True)) for row in zip(*values, strict=True)] if values else []
        return _lines(rows, columns, self._keys(lineage, at), raws)

    def at(self, at: str) -> Iterator[tuple[Name, Iterator[str]]]:
        """Every table that existed right after `at`, dropped and renamed ones included, folded from silver."""
        position = parse_position(at, self._watermark())
        changes = self._all_changes()
        for name, lineage in sorted(self.history.live(position).items()):
            folded = fold(
                lineage,
                (change for change, _ in changes.get(lineage.id, [])),
                position,
                upstream_of(self.settings["format"], self.settings["options"]),
            )
            yield name, self._folded_lines(lineage, finish(folded), position)

    def changes(self, table: str, at: str | None) -> Iterator[str] | None:
        """A table's change log up to `at`, in position order, as silver holds it."""
        frame = read_silver(self.spark, self.lake, self.source, "changes")
        mine = frame.where(F.concat_ws(".", "database", "table") == table)
        if at is not None:
            mine = mine.where(between(None, parse_position(at, self._watermark())))
        if not any(".".join(entry["name"]) == table for entry in (self.done or {}).get("tables", [])):
            return None
        return (row.value for row in mine.orderBy("position").select(F.to_json(F.struct("*")).alias("value")).toLocalIterator())

    def _folded_lines(self, lineage: Lineage, rows: list[Row], position: Position) -> Iterator[str]:
        columns = self._columns(lineage, position)
        typed = type_rows(rows, columns)
        names = [*typed.columns, *typed.raw]
        values = [*typed.columns.values(), *typed.raw.values()]
        dicts = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
        return _lines(dicts, columns, self._keys(lineage, position), list(typed.raw))

    def _all_changes(self) -> dict[str, list[tuple[Change, int]]]:
        if self._changes is None:
            assert self.done is not None
            silver = read_silver(self.spark, self.lake, self.source, "changes").where(
                (F.col("batch") <= self.done["batch"]) & not_void(self.log) & not_aborted(self.log)
            )
            self._changes, _ = by_lineage(self.history, collect_changes(silver.where(between(None, self._watermark()))))
        return self._changes

    def _watermark(self) -> Position:
        if self.manifest is None:
            raise LakehouseError(f"{self.source}: gold has published nothing yet; `lakehouse run gold` does")
        return tuple(self.manifest["watermark"])

    def _columns(self, lineage: Lineage, at: Position) -> list[GoldColumn]:
        schema = lineage.schema_at((*at[:5], at[5] + 1))
        return gold_columns(schema, {}, virtual=self.settings["virtual"])

    def _keys(self, lineage: Lineage, at: Position) -> list[str]:
        ids = key_ids(lineage, lineage.step_at((*at[:5], at[5] + 1)))
        names = {column.column.id: column.name for column in self._columns(lineage, at)}
        return [names[key] for key in ids if key in names]


def parse_position(text: str, watermark: Position) -> Position:
    """A TSO (of the watermark's epoch), or all six integers as a JSON list; never above the watermark."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, int):
        position = (watermark[0], value, 2, 0, 0, 0)
    elif isinstance(value, list) and len(value) <= 6 and all(isinstance(item, int) for item in value):
        position = (*value, *[0] * (6 - len(value)))
    else:
        raise LakehouseError(f"--at {text}: expected a TSO or a position such as [0,470606995731251200,2,0,0,0]")
    if position > watermark:
        raise LakehouseError(f"--at {text}: expected a moment up to the watermark {watermark[1]}")
    return position


def _lines(rows: list[dict[str, Any]], columns: list[GoldColumn], keys: list[str], raws: list[str]) -> Iterator[str]:
    """Rows as JSON text, in key order, columns in the table's order, companions last and only where they say something."""
    rows.sort(key=lambda row: [_sortable(row[name]) for name in (keys or row)])
    for row in rows:
        line = {column.name: None if row[column.name] is None else column.to_canonical(row[column.name]) for column in columns}
        line.update({name: row[name] for name in raws if row[name] is not None})
        yield json.dumps(line, ensure_ascii=False)


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
