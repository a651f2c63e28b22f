"""Operators' decisions on the DDL that holds a table, which the schema history reads from the ops log; and
what statements would do to a gold table.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from lakehouse.ddl.impact import Table, outlook, unreadable
from lakehouse.ddl.parse.statements import read
from lakehouse.ddl.policy import Rules
from lakehouse.errors import ConfigError, DdlError, LakehouseError
from lakehouse.events import just_above
from lakehouse.gold.upstream import upstream_of
from lakehouse.ops.records.gold import HeldAt
from lakehouse.ops.records.operators import Decision
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.gold_names import gold_entry
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.session import get_session

Entry = dict[str, Any]


def decide(root: str, table: str, action: str, why: str, instead: str | None = None) -> Entry:
    """Approve or skip the DDL that holds a table. Gold's next run goes on from there. Said again it is
    nothing new.
    """
    log, entry = gold_entry(get_session(), Lake(root), table)
    held = entry.held
    if held is None:
        raise LakehouseError(
            f"{table}: expected a table that a DDL holds, it is {entry.state}; `lakehouse status` shows what "
            "holds a table"
        )
    if held.by == "rows":
        raise LakehouseError(
            f"{table}: its rows have columns that no DDL has added: set drift_timeout, or `lakehouse schema "
            "import`"
        )
    if held.by == "name":
        raise LakehouseError(f"{table}: decide about the table that has its name: {entry.why}")
    if action == "approve":
        _check_approval(table, held, instead)
    ddl = held.ddl or ""
    known = [one for one in log.all(Decision) if (one.position, one.ddl) == (held.position, ddl)]
    is_new = not known or (known[-1].decision, known[-1].instead) != (action, instead)
    if is_new:
        log.add(
            Decision(decision=action, instead=instead, table=table, position=held.position, ddl=ddl, why=why)
        )
    return {
        "table": table,
        "decision": action,
        "instead": instead,
        "ddl": held.ddl,
        "position": list(held.position),
        "recorded": is_new,
    }


def _check_approval(table: str, held: HeldAt, instead: str | None) -> None:
    if held.by == "reject":
        raise LakehouseError(
            f"{table}: its on_ddl rejects this DDL: change the YAML, or `lakehouse ddl skip` it"
        )
    if held.by == "reader" and instead is None:
        raise LakehouseError(
            f"{table}: this DDL can't be applied as it stands: say what it means with --as SQL, or "
            "`lakehouse ddl skip` it"
        )
    if instead is not None:
        try:
            read(instead)
        except DdlError as error:
            raise ConfigError(f"--as: expected a statement that can be read: {error}") from error


def answers_for(root: str, table: str, answers: Iterable[Entry]) -> Iterator[Entry]:
    """The answers of `lakehouse ddl`, each with what its statements would do to the gold table as
    it is now.
    """
    now = table_now(root, table)
    for answer in answers:
        outcomes = []
        try:
            for statement in read(answer["sql"]):
                outcome, now = outlook(now, statement)
                outcomes.append(outcome)
        except DdlError as error:
            outcomes = [unreadable(str(error))]
        yield {**answer, "outlook": outcomes}


def table_now(root: str, table: str) -> Table:
    """A gold table's schema at the published watermark, and the policy of its YAML."""
    spark, lake = get_session(), Lake(root)
    log, entry = gold_entry(spark, lake, table)
    settings = sources(spark, lake)[log.source]
    reader = Reader(spark, lake, log.source, settings)
    lineage = next((one for one in reader.history.lineages if one.id == entry.lineage), None)
    if lineage is None:
        raise LakehouseError(f"{table}: expected a table of its own, it is several tables as one")
    assert reader.manifest is not None
    at = reader.manifest.position_of(entry)
    policy = Rules(dict(settings.on_ddl)).policy(lineage, at, None)
    upstream = upstream_of(settings.format, settings.options)
    schema = lineage.schema_at(just_above(at))
    return Table((entry.database, entry.table), schema, policy, upstream.server, zone=upstream.zone)
