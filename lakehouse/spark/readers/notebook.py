"""Functions for the notebooks: manifests to travel to, and plots that are shown or saved."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse.ops.records import Manifest
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.readers.views import free_name


def manifests_of(
    spark: SparkSession, root: str, catalog: str | None = None, schemas: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """What gold has published, oldest first: source, time, watermark, and the states of the tables."""
    return [
        {
            "source": source,
            "published_at": datetime.fromtimestamp(at / 1000, UTC).isoformat(" ", "seconds"),
            "watermark": list(manifest.watermark),
            "states": {entry.name: entry.state for entry in manifest.tables},
        }
        for source, at, manifest in _published(spark, Lake(root, catalog, dict(schemas or {})))
    ]


def at_manifest(
    spark: SparkSession,
    number: int,
    root: str,
    catalog: str | None = None,
    schemas: Mapping[str, str] | None = None,
) -> dict[str, DataFrame]:
    """The gold tables as the manifest of this number (as `manifests_of` counts) shows them, by the names of
    today's views.
    """
    lake = Lake(root, catalog, dict(schemas or {}))
    _, _, manifest = _published(spark, lake)[number]
    return {
        free_name(f"gold_{entry.gold}", {}): lake.read(spark, "gold", entry.gold, entry.version)
        for entry in manifest.tables
    }


def _published(spark: SparkSession, lake: Lake) -> list[tuple[str, int, Manifest]]:
    logs = ((source, OpsLog(spark, lake, source).load()) for source in sources(spark, lake))
    return sorted(
        ((source, at, manifest) for source, log in logs for at, manifest in log.dated(Manifest)), key=_when
    )


def _when(entry: tuple[str, int, Manifest]) -> tuple[int, str]:
    return entry[1], entry[0]


def saved_plot(file: str, label: str, x: Iterable[Any], lines: Mapping[str, list[Any]], shown: bool) -> None:
    """Lines over x, shown where the notebook can show them, else in a file; without matplotlib one
    sentence.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return print("no plot: matplotlib is not installed (pip install matplotlib)")
    figure, axes = plt.subplots(figsize=(10, 4))
    for name, values in lines.items():
        axes.plot(list(x), values, marker="o", label=name)
    axes.set_ylabel(label)
    if lines:
        axes.legend(fontsize="small")
    if shown:
        return plt.show()
    figure.savefig(file)
    plt.close(figure)
    return print(file)
