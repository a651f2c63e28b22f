"""OpenLineage events of a run: the datasets that each layer reads and writes. Pure: time and identity are
arguments.

    bronze   Kafka topics, or the folder or file   ──▶ bronze.<source>
    silver   bronze.<source>                       ──▶ silver.<source>_changes, _schema_changes, _watermarks,
                                                       _dead_letters
    gold     silver's changes and schema changes   ──▶ each gold table

Specification: OpenLineage 2-0-2 (RunEvent) and its naming conventions: `kafka://host:port` and a topic,
`file` and a path, `s3://bucket` and a key. Each layer of a run is a run of the job `<source>.<layer>`: a
START and a COMPLETE or FAIL. Errors hold no row values.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, NamedTuple

SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
FACETS = "https://openlineage.io/spec/facets"
SILVER_TABLES = ("changes", "schema_changes", "watermarks", "dead_letters")
GOLD_READS = ("changes", "schema_changes")


class Dataset(NamedTuple):
    """An OpenLineage dataset, and how many rows a run wrote to it, if known."""

    namespace: str
    name: str
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class LayerRun:
    """The run of one layer; times in milliseconds."""

    source: str
    layer: str
    begun: int
    ended: int
    inputs: Sequence[Dataset]
    outputs: Sequence[Dataset]
    error: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def topic_dataset(bootstrap: str, topic: str) -> Dataset:
    """A Kafka topic, named by the first of its brokers."""
    return Dataset(f"kafka://{bootstrap.split(',')[0].strip()}", topic)


def path_dataset(path: str, base: str) -> Dataset:
    """A file, folder or path table, named by its scheme; a relative path is below `base`."""
    scheme, separator, rest = path.partition("://")
    if not separator:
        return Dataset("file", str(PurePosixPath(base) / path))
    host, _, key = rest.partition("/")
    scheme = {"s3a": "s3", "s3n": "s3"}.get(scheme, scheme)
    return Dataset(
        "file" if scheme == "file" and not host else f"{scheme}://{host}",
        f"/{key}" if scheme == "file" else key or "/",
    )


def events(run: LayerRun, namespace: str, producer: str) -> Iterator[dict[str, Any]]:
    """START and COMPLETE, or START and FAIL. The same run has the same run id in every call."""
    ending = "COMPLETE" if run.error is None else "FAIL"
    identity = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{namespace}/{run.source}.{run.layer}/{run.begun}"))
    for kind, at in (("START", run.begun), (ending, run.ended)):
        yield {
            "eventType": kind,
            "eventTime": _instant(at),
            "run": {"runId": identity, "facets": _run_facets(run, kind, producer)},
            "job": {
                "namespace": namespace,
                "name": f"{run.source}.{run.layer}",
                "facets": {"jobType": _job_type(producer)},
            },
            "inputs": [{"namespace": dataset.namespace, "name": dataset.name} for dataset in run.inputs],
            "outputs": [_output(dataset, kind, producer) for dataset in run.outputs],
            "producer": producer,
            "schemaURL": SPEC,
        }


def _instant(millis: int) -> str:
    return (
        datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _run_facets(run: LayerRun, kind: str, producer: str) -> dict[str, Any]:
    facets: dict[str, Any] = {}
    if kind == "FAIL":
        schema = f"{FACETS}/1-0-1/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet"
        facets["errorMessage"] = {
            "_producer": producer,
            "_schemaURL": schema,
            "message": run.error,
            "programmingLanguage": "PYTHON",
        }
    if kind != "START" and run.facts:
        # a facet of our own: what the run came to
        schema = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunFacet"
        facets["lakehouse_run"] = {"_producer": producer, "_schemaURL": schema, **run.facts}
    return facets


def _job_type(producer: str) -> dict[str, Any]:
    schema = f"{FACETS}/2-0-4/JobTypeJobFacet.json#/$defs/JobTypeJobFacet"
    return {
        "_producer": producer,
        "_schemaURL": schema,
        "processingType": "BATCH",
        "integration": "LAKEHOUSE",
        "jobType": "TASK",
    }


def _output(dataset: Dataset, kind: str, producer: str) -> dict[str, Any]:
    output: dict[str, Any] = {"namespace": dataset.namespace, "name": dataset.name}
    if dataset.rows is not None and kind == "COMPLETE":
        name = "OutputStatisticsOutputDatasetFacet"
        schema = f"{FACETS}/1-0-2/{name}.json#/$defs/{name}"
        output["outputFacets"] = {
            "outputStatistics": {"_producer": producer, "_schemaURL": schema, "rowCount": dataset.rows}
        }
    return output
