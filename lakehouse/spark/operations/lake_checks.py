"""Checks of a lake that need Spark: whether it answers, its catalog has the schemas, it can be written, and
which version wrote it.
"""

import uuid
from collections.abc import Iterator

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakehouse.config.models import SourceConfig
from lakehouse.discovery.findings import FAIL, OK, WARN, Finding
from lakehouse.errors import LakehouseError
from lakehouse.ops.file_lock import is_remote
from lakehouse.spark.lake import LAYERS, Lake, quote
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.session import ONE_DRIVER, capabilities, get_session, keeps_drivers_apart
from lakehouse.spark.source import lake_of


def lake_findings(source: SourceConfig, given: str | None) -> Iterator[Finding]:
    """The session, the catalog, and a table that is written, read and removed."""
    spark, lake = get_session(), lake_of(source, given)
    able = capabilities(spark)
    kind = "Connect" if able.connect else "classic"
    yield Finding(
        "spark", spark.version, OK, f"{kind}{'' if able.continuous else ', serverless: scheduled runs only'}"
    )
    if not keeps_drivers_apart(spark, lake.root):
        yield Finding("lake", lake.root, WARN, ONE_DRIVER)
    where = lake.root if lake.catalog is None else lake.catalog
    try:
        if lake.catalog is not None:
            yield from schemas(spark, lake)
        yield from writing(spark, lake, where)
        known = sources(spark, lake)
        yield Finding("lake", where, OK, f"sources: {', '.join(sorted(known)) or 'none yet'}")
    except LakehouseError as error:
        yield Finding("lake", where, FAIL, str(error))
    except PySparkException as error:
        condition = error.getCondition() or type(error).__name__
        yield Finding(
            "lake",
            where,
            FAIL,
            f"Spark refuses: {condition}",
            fix="mend the lake's path, catalog or permissions",
        )


def schemas(spark: SparkSession, lake: Lake) -> Iterator[Finding]:
    """Whether the four schemas are there."""
    there = {row[0] for row in spark.sql(f"SHOW SCHEMAS IN {quote(lake.catalog or '')}").collect()}
    for layer in LAYERS:
        name = lake.schemas.get(layer, layer)
        if name in there:
            yield Finding("schema", f"{lake.catalog}.{name}", OK, "")
        else:
            yield Finding(
                "schema",
                f"{lake.catalog}.{name}",
                WARN,
                "is not there",
                fix=f"CREATE SCHEMA {lake.catalog}.{name}",
            )


def writing(spark: SparkSession, lake: Lake, where: str) -> Iterator[Finding]:
    """A table of one row, written, read and removed."""
    name = f"_doctor_{uuid.uuid4().hex[:8]}"
    frame = spark.range(1)
    lake.append(frame, "ops", name)
    rows = lake.read(spark, "ops", name).count()
    if lake.catalog is not None:
        spark.sql(f"DROP TABLE {lake.ref('ops', name)}")
    elif not is_remote(lake.root):
        import shutil

        shutil.rmtree(lake.path("ops", name))
    left = lake.catalog is None and is_remote(lake.root)
    text = "a table was written and read" + (
        f"; it is left at {lake.path('ops', name)}" if left else " and removed"
    )
    yield Finding("lake", where, OK if rows == 1 else FAIL, text)
