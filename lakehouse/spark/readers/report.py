"""`lakehouse report` and `lakehouse metrics`: a lake as one HTML page, and as numbers for Prometheus."""

from pathlib import Path
from typing import Any

from lakehouse import __version__
from lakehouse.config.load import Config
from lakehouse.errors import EnvironmentError_
from lakehouse.reporting.html_page import page
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.readers.timeline import Observed, observe
from lakehouse.spark.session import get_session
from lakehouse.spark.source import selected_sources


def report(config: Config | None, lake: str | None, to: Path) -> dict[str, Any]:
    """Write the page; returns where it is and what it shows."""
    sources = observed(config, lake)
    text = page(
        sources, ", ".join(sorted({source["where"] for source in sources})) or lake or "./lake", __version__
    )
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise EnvironmentError_(
            f"{to}: expected a file that can be written, got: {error.strerror}"
        ) from error
    return {"report": str(to), "sources": [source["source"] for source in sources]}


def observed(config: Config | None, lake: str | None) -> list[Observed]:
    """Every source: the configured ones in their own lakes, else all that the lake knows."""
    spark = get_session()
    if config is not None and config.sources:
        return [
            {
                **observe(spark, source.lake, source.name, source),
                "where": source.lake.catalog or source.lake.root,
            }
            for source in selected_sources(config, (), lake)
        ]
    place = Lake(lake or "./lake")
    return [{**observe(spark, place, name, None), "where": place.root} for name in sources(spark, place)]
