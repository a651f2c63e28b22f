"""What `lakehouse report` and `lakehouse metrics` show: every source, observed."""

from lakehouse.config.load import Config
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.readers.timeline import Observed, observe
from lakehouse.spark.session import get_session
from lakehouse.spark.source import selected_sources


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
