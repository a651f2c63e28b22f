"""What a run's record means as lineage: its layers with the tables they read and wrote, sent to whoever
listens.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lakehouse import __version__
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

PRODUCER = f"https://pypi.org/project/lakehouse/{__version__}"


def emit_run(log: OpsLog, body: dict[str, Any]) -> int:
    """Send the events of a run's record, where the environment asks for them; returns how many arrived."""
    if not is_asked_for():
        return 0
    return send(event for run in layer_runs(log, body) for event in events(run, job_namespace(), PRODUCER))


def layer_runs(log: OpsLog, body: dict[str, Any]) -> Iterator[LayerRun]:
    """A run's layers, each with what it read and wrote."""
    for layer in body["layers"]:
        inputs, outputs = _EDGES[layer](log, body)
        facts = {name: body[name] for name in ("landed", "batches", "published")} | {
            "seconds": body["seconds"].get(layer, 0)
        }
        yield LayerRun(log.source, layer, body["begun"], body["ended"], inputs, outputs, body["error"], facts)


def _bronze(log: OpsLog, body: dict[str, Any]) -> tuple[list[Dataset], list[Dataset]]:
    read = body.get("read") or {}
    inputs = [topic_dataset(read["bootstrap"], topic) for topic in read.get("topics", ())]
    inputs += [path_dataset(path, str(Path.cwd())) for path in read.get("paths", ())]
    return inputs, [table_dataset(log.lake, "bronze", log.source)._replace(rows=body["landed"])]


def _silver(log: OpsLog, body: dict[str, Any]) -> tuple[list[Dataset], list[Dataset]]:
    outputs = [table_dataset(log.lake, "silver", f"{log.source}_{name}") for name in SILVER_TABLES]
    return [table_dataset(log.lake, "bronze", log.source)], outputs


def _gold(log: OpsLog, body: dict[str, Any]) -> tuple[list[Dataset], list[Dataset]]:
    tables = (log.last("manifest") or {"tables": []})["tables"]
    outputs = [
        table_dataset(log.lake, "gold", entry["gold"]) for entry in tables if entry["state"] != "retired"
    ]
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
