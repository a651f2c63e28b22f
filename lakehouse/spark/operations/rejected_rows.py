"""Operators' commands on rejected rows: list them, evaluate them again, or accept them."""

from typing import Any

from msgspec import UNSET
from pyspark.sql import functions as F

from lakehouse.config.load import Config
from lakehouse.errors import LakehouseError
from lakehouse.events import MIN_POSITION, Position
from lakehouse.gold.upstream import upstream_of
from lakehouse.lineage import Lineage
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.operators import Accepted
from lakehouse.ops.records.silver import Done
from lakehouse.ops.source_settings import SourceSettings
from lakehouse.quality.suite import suite_of
from lakehouse.spark.change_log.changes import not_void, of_lineage
from lakehouse.spark.change_log.schema_history import load_history
from lakehouse.spark.gold.run import run_gold
from lakehouse.spark.gold.settings import GoldSettings
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.gold_names import the_one
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.quality.evaluate import SuiteEvaluator, commit_of, identity
from lakehouse.spark.quality.gates import open_rejections, rejected_rows
from lakehouse.spark.session import get_session
from lakehouse.spark.silver.tables import read_silver
from lakehouse.spark.source import Source, said_in, selected_sources


class Rejections:
    """One source's rejected rows."""

    def __init__(self, lake: Lake, source: str, settings: SourceSettings) -> None:
        self.spark, self.lake, self.source, self.settings = get_session(), lake, source, settings
        self.log = OpsLog(self.spark, lake, source).load()
        manifest, done = self.log.last(Manifest), self.log.last(Done)
        self.tables = manifest.tables if manifest else ()
        self.watermark = manifest.watermark if manifest else MIN_POSITION
        self.history = load_history(self.log, done, said_in(settings)) if done else None
        self.silver = read_silver(self.spark, lake, source, "changes").where(not_void(self.log))
        self.rows = rejected_rows(self.spark, lake, source)

    def lineage(self, name: str) -> Lineage | None:
        ids = [entry.lineage for entry in self.tables if name in map(".".join, entry.names)]
        return next((one for one in (self.history.lineages if self.history else ()) if one.id in ids), None)

    def of(self, lineage: Lineage, *, all_: bool) -> list[dict[str, Any]]:
        """Rejected changes of a table in order; without `all_` those alone that nothing came after."""
        mine = self.rows.where(F.col("lineage") == lineage.id)
        rows = mine if all_ else open_rejections(mine, lineage, self.silver, self.watermark)
        return [
            {
                "source": self.source,
                "table": f"{row.database}.{row.table}",
                "key": row.key,
                "position": list(row.position),
                "reasons": row.reasons,
                "origin": {name: value for name, value in row.origin.asDict().items() if value is not None},
            }
            for row in rows.orderBy("position", "key").collect()
        ]

    def stopping(self, lineage: Lineage, suite: list[dict[str, Any]], place: Position) -> list[str]:
        """The identities of the changes at the place where a table stands, which its checks stop."""
        virtual, upstream = (
            self.settings.virtual,
            upstream_of(self.settings.format, self.settings.options),
        )
        judge = SuiteEvaluator(lineage, suite_of(suite), upstream, virtual=virtual)
        judged = judge.frame(self.silver.where(of_lineage(lineage)), partial=True)
        failing = judged.where(F.arrays_overlap("failed", F.array(*[F.lit(index) for index in judge.stops])))
        rows = failing.select("position", identity().alias("name")).orderBy("position").collect()
        stood = [row for row in rows if commit_of(tuple(row.position), upstream) >= place]
        first = commit_of(tuple(stood[0].position), upstream) if stood else None
        return [row.name for row in stood if commit_of(tuple(row.position), upstream) == first]


def list_rejected(root: str, table: str | None, all_: bool) -> list[dict[str, Any]]:
    """Rejected rows with their reasons and the place of their bytes."""
    lake, listed = Lake(root), []
    for source, settings in sources(get_session(), lake).items():
        rejections = Rejections(lake, source, settings)
        names = {name for entry in rejections.tables for name in map(".".join, entry.names)}
        lineages = {
            lineage.id: lineage
            for name in sorted(names)
            if table in (None, name) and (lineage := rejections.lineage(name))
        }
        for lineage in lineages.values():
            listed += rejections.of(lineage, all_=all_)
    return listed


def requeue(config: Config, table: str, root: str | None, accept: bool, why: str | None) -> dict[str, Any]:
    """Judge a table's rows again by the suite of today and fold it; with `accept`, those that fail today pass
    from now on.
    """
    if accept and not why:
        raise LakehouseError(f"{table}: expected --why with --accept: the reason is kept")
    source, rejections, lineage = _found_table(config, table, root)
    before = rejections.of(lineage, all_=True)
    with layer_lock(rejections.spark, source.lake, source.name, ("gold",)) as lake:
        if accept:
            _accept(rejections, lineage, source.gold, before, why=str(why))
        log = OpsLog(rejections.spark, lake, source.name).load()
        run_gold(source.gold, log, progress=lambda _: None, again=frozenset([lineage.id]))
    after = Rejections(source.lake, source.name, source.settings).of(lineage, all_=True)
    manifest = log.last(Manifest)
    entry = next(one for one in (manifest.tables if manifest else ()) if one.lineage == lineage.id)
    return {
        "table": table,
        "rejected_before": len(before),
        "rejected_now": len(after),
        "state": entry.state,
        "why": entry.why,
    }


def _found_table(config: Config, table: str, root: str | None) -> tuple[Source, Rejections, Lineage]:
    """The table of that name, which may begin with its source's, in the lakes of the configured sources.
    LakehouseError where none has it, or several.
    """
    prefix, _, rest = table.partition(":")
    select, name = ((prefix,), rest) if prefix in config.sources and rest else ((), table)
    found = {}
    for source in selected_sources(config, select, root):
        settings = sources(get_session(), source.lake).get(source.name)
        rejections = Rejections(source.lake, source.name, settings) if settings else None
        if rejections is not None and (lineage := rejections.lineage(name)) is not None:
            found[source.name] = source, rejections, lineage
    if not found:
        raise LakehouseError(
            f"{table}: expected a gold table that has expectations, found none; `lakehouse status` lists the "
            "tables"
        )
    return the_one(found, table, source.lake.root)


def _accept(
    rejections: Rejections,
    lineage: Lineage,
    settings: GoldSettings,
    before: list[dict[str, Any]],
    *,
    why: str,
) -> None:
    """Record the rows by name. The records are kept with the suite's own verdicts, so that a rebuild gives
    the same table.
    """
    earlier = [
        name for one in rejections.log.all(Accepted) if one.lineage == lineage.id for name in one.changes
    ]
    names = [" ".join([row["key"], *map(str, row["position"])]) for row in before]
    entry = next(one for one in rejections.tables if one.lineage == lineage.id)
    suite = next(
        (
            suite.plain()
            for name, suite in settings.suites.items()
            if ".".join(name) in map(".".join, entry.names)
        ),
        None,
    )
    if entry.stopped is not UNSET and suite:
        names += rejections.stopping(lineage, suite, entry.stopped[0])
    rejections.log.add(Accepted(lineage=lineage.id, changes=tuple(sorted({*earlier, *names})), why=why))
