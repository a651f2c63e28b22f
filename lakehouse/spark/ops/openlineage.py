"""OpenLineage events of a run's record: its layers with the tables they read and wrote."""

from collections.abc import Iterator
from pathlib import Path

from lakehouse import DISTRIBUTION, __version__
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.runs import Run
from lakehouse.reporting.openlineage import (
    GOLD_READS,
    SILVER_TABLES,
    Dataset,
    LayerRun,
    events,
    path_dataset,
    topic_dataset,
)
from lakehouse.reporting.openlineage_client import is_asked_for, job_namespace, send
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog

PRODUCER = f"https://pypi.org/project/{DISTRIBUTION}/{__version__}"


def emit_run(log: OpsLog, run: Run) -> int:
    """Send the events of a run's record, where the environment asks for them; returns how many arrived."""
    if not is_asked_for():
        return 0
    return send(event for one in layer_runs(log, run) for event in events(one, job_namespace(), PRODUCER))


def layer_runs(log: OpsLog, run: Run) -> Iterator[LayerRun]:
    """A run's layers, each with what it read and wrote."""
    for layer in run.layers:
        inputs, outputs = _EDGES[layer](log, run)
        facts: dict[str, float] = {"landed": run.landed, "batches": run.batches, "published": run.published}
        facts["seconds"] = run.seconds.get(layer, 0)
        yield LayerRun(
            log.source,
            layer,
            run.begun,
            run.ended,
            inputs=inputs,
            outputs=outputs,
            error=run.error,
            facts=facts,
        )


def _bronze(log: OpsLog, run: Run) -> tuple[list[Dataset], list[Dataset]]:
    inputs = [topic_dataset(run.read.bootstrap or "", topic) for topic in run.read.topics]
    inputs += [path_dataset(path, str(Path.cwd())) for path in run.read.paths]
    return inputs, [table_dataset(log.lake, "bronze", log.source)._replace(rows=run.landed)]


def _silver(log: OpsLog, run: Run) -> tuple[list[Dataset], list[Dataset]]:
    outputs = [table_dataset(log.lake, "silver", f"{log.source}_{name}") for name in SILVER_TABLES]
    return [table_dataset(log.lake, "bronze", log.source)], outputs


def _gold(log: OpsLog, run: Run) -> tuple[list[Dataset], list[Dataset]]:
    manifest = log.last(Manifest)
    tables = [entry for entry in (manifest.tables if manifest else ()) if entry.state != "retired"]
    outputs = [table_dataset(log.lake, "gold", entry.gold) for entry in tables]
    return [table_dataset(log.lake, "silver", f"{log.source}_{name}") for name in GOLD_READS], outputs


_EDGES = {"bronze": _bronze, "silver": _silver, "gold": _gold}


def table_dataset(lake: Lake, layer: str, name: str) -> Dataset:
    """A table of a lake: its path, or its name in the catalog."""
    if lake.catalog is None:
        return path_dataset(lake.path(layer, name), str(Path.cwd()))
    return Dataset(
        "unitycatalog",
        ".".join(part for part in (lake.catalog, lake.schemas.get(layer, layer), name) if part),
    )
