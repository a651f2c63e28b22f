"""The audit of a lake: holds what one layer has against what the next one says it took, over all that there
is.

    bronze   the records of each batch's ranges       =  the messages that the batch counted
             no record twice, none below silver's progress that no batch has read
    silver   the changes and dead letters in storage  =  those that the batches counted
    gold     the rows of each published table         =  the rows that silver's log folds to
             each change fits the row before it (docs/continuity.md), as far as the table does not say so

Nothing that is published changes; gold is folded into tables that are removed again.
"""

from collections.abc import Callable, Iterator
from typing import Any

from lakehouse.errors import LakehouseError
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.ops.records.silver import Done
from lakehouse.ops.source_settings import SourceSettings
from lakehouse.reporting.text.values import counted
from lakehouse.spark.change_log.layer_counts import bronze_findings, silver_findings
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.rebuild import shadow_difference, shadow_run
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.session import get_session, many_rows

Entry = dict[str, Any]
Progress = Callable[[str], None]


def audit(root: str, source: str | None, progress: Progress, *, fold: bool = True) -> Iterator[Entry]:
    """One entry per source: `findings`, a sentence for each thing that does not add up, with its place and
    the numbers; how many batches and tables were looked at; tables that were not compared, and why. Without
    `fold`, gold is left out. LakehouseError for a source that the lake does not have.
    """
    spark, lake = get_session(), Lake(root)
    known = sources(spark, lake)
    for name in [source] if source else sorted(known):
        if name not in known:
            raise LakehouseError(
                f"{name}: expected a source of {root}, found none; `lakehouse status` lists them"
            )
        yield source_audit(OpsLog(spark, Lake(root), name).load(), known[name], progress, fold=fold)


def source_audit(log: OpsLog, settings: SourceSettings, progress: Progress, *, fold: bool) -> Entry:
    """The audit of one source."""
    done, manifest = log.last(Done), log.last(Manifest)
    if done is None:
        return {"source": log.source, "batches": 0, "tables": 0, "not_compared": [], "findings": []}
    with many_rows(log.spark):
        progress(f"audit   {log.source}: bronze against {counted(done.batch, 'batch')} of silver")
        findings = [*bronze_findings(log, done), *silver_findings(log, done)]
    compared, left_out = 0, []
    for entry in manifest.tables if fold and manifest is not None else ():
        why = why_left_out(entry)
        if why is None and manifest is not None:
            progress(f"audit   {log.source}: gold {entry.gold}")
            findings += gold_findings(log, settings, manifest, entry)
            compared += 1
        elif why is not None:
            left_out.append(f"{entry.name}: {why}")
    return {
        "source": log.source,
        "batches": done.batch,
        "tables": compared,
        "not_compared": left_out,
        "findings": findings,
    }


def why_left_out(entry: TableEntry) -> str | None:
    """Why a table can't be compared with a fold of its own; None where it can."""
    if entry.state == "retired":
        return "its source table is gone"
    return "it stands before the watermark" if entry.state == "behind" else None


def gold_findings(
    log: OpsLog, settings: SourceSettings, manifest: Manifest, entry: TableEntry
) -> Iterator[str]:
    """Where a table, in the newest version that readers see, is not what silver's log folds to; and what
    that fold knows to be lacking, where the table does not say so.
    """
    run = shadow_run(log, settings, manifest, manifest.watermark)
    found = shadow_difference(run, entry, entry.gold, None)
    if found["only_live"] or found["only_rebuilt"] or found["columns_that_differ"]:
        yield (
            f"gold {entry.gold}: {found['only_rebuilt']} rows that silver's log gives are not in it, and "
            f"{found['only_live']} are in it that the log does not give; "
            f"`lakehouse rebuild {entry.name} --yes`"
        )
    for text in found["lacking"]:
        yield f"gold {entry.gold}: {text}; `lakehouse rebuild {entry.name} --yes` publishes it so"
