"""Names of gold tables in a lake of several sources: which table a command's DB.TABLE means, and which source
owns a name.

A gold table has one owner, which claims its name in `ops.gold_names` before the table is made. A name that
another source has claimed, or that a table has which nobody claimed, is left alone: the table takes
`<name>__<source>` then, unless its YAML says the name.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from lakehouse.errors import LakehouseError
from lakehouse.gold.table_names import free_of
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.ops.source_settings import SourceSettings
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.ops.log import OpsLog

CLAIMS = StructType([StructField("name", StringType()), StructField("source", StringType())])
# how many Delta tables are looked for at a time
THREADS = 8
Found = TypeVar("Found")


def named(spark: SparkSession, lake: Lake, table: str) -> tuple[dict[str, SourceSettings], str]:
    """The sources that may have `DB.TABLE`, or the one of `SOURCE:DB.TABLE`, with their settings; and the
    table's name.
    """
    known = sources(spark, lake)
    source, _, name = table.partition(":")
    return ({source: known[source]}, name) if source in known and name else (known, table)


def the_one(found: Mapping[str, Found], table: str, root: str) -> Found:
    """What the one source that has the table gives of it; LakehouseError where none has it, or several."""
    if not found:
        raise LakehouseError(
            f"{table}: expected a gold table of {root}, found none; `lakehouse status` lists them"
        )
    if len(found) > 1:
        raise LakehouseError(
            f"{table}: expected the table of one source, {', '.join(found)} have one; write "
            f"{next(iter(found))}:{table}"
        )
    return next(iter(found.values()))


def gold_entry(spark: SparkSession, lake: Lake, table: str) -> tuple[OpsLog, TableEntry]:
    """A live gold table's source, as its log, and its entry in the last manifest."""
    known, name = named(spark, lake, table)
    entries = {}
    for source in known:
        log = OpsLog(spark, lake, source).load()
        manifest = log.last(Manifest)
        for entry in manifest.tables if manifest else ():
            if entry.name == name and entry.state != "retired":
                entries[source] = log, entry
    return the_one(entries, table, lake.root)


def claim(
    spark: SparkSession, lake: Lake, source: str, wanted: Sequence[tuple[str, bool]], taken: set[str]
) -> list[str | None]:
    """A name of the source's own for each new gold table: (name, whether it must be this one) → the name, or
    None where another has it.

    `taken` are the names of the source's other tables, the wanted ones among them. Two sources that claim a
    name at the same moment both see it in the record afterwards, and both take another one.
    """
    names: list[str | None] = [name for name, _ in wanted]
    held = claims(spark, lake) if wanted else {}
    asked = list(range(len(wanted)))
    while asked:
        new = [str(names[index]) for index in asked if str(names[index]).casefold() not in held]
        with ThreadPoolExecutor(THREADS) as pool:
            there = pool.map(lambda name: lake.exists(spark, "gold", name), new)
            rows = [
                {"name": name, "source": source}
                for name, exists in zip(new, there, strict=True)
                if not exists
            ]
        if rows:
            frame = spark.createDataFrame(pa.Table.from_pylist(rows), CLAIMS).coalesce(1)
            lake.append_shared(frame, "gold_names")
            held = claims(spark, lake)
        asked = [index for index in asked if held.get(str(names[index]).casefold()) != {source}]
        for index in asked:
            name, fixed = wanted[index]
            names[index] = None if fixed else free_of(taken, others(name, source))
        asked = [index for index in asked if names[index] is not None]
    return names


def others(name: str, source: str) -> Iterator[str]:
    """The names that a table may take if it can't have its own."""
    yield f"{name}__{source}"
    yield from (f"{name}__{source}_{number}" for number in count(2))


def renamed(gold: str, wanted: str, target: str | None) -> list[str]:
    """The notes on a table that could not have its own name, or was made before its YAML named this
    `target`.
    """
    notes = [f"{wanted} is another table's name in gold, this one is {gold}"] if gold != wanted else []
    if target is not None and target not in (gold, wanted):
        notes.append(f"gold.target: {target} is a name for a new table; this one stays {gold}")
    return notes


def claims(spark: SparkSession, lake: Lake) -> dict[str, set[str]]:
    """Who claims which name, in small letters."""
    found: dict[str, set[str]] = {}
    rows = lake.rows(spark, "ops", "gold_names", ("name", "source"))
    for row in [] if rows is None else rows.to_pylist():
        found.setdefault(row["name"].casefold(), set()).add(row["source"])
    return found
