"""An opened lake: the Python API (lakehouse/api.py). Its methods find the table by its name
(named_tables.py); what they return is made by the other modules here.
"""

from collections.abc import Iterable, Mapping

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors import LakehouseError, did_you_mean
from lakehouse.events import Position
from lakehouse.lineage import Lineage
from lakehouse.spark.api import activity, logs
from lakehouse.spark.api.moment_rows import difference, rows_at
from lakehouse.spark.api.moments import Moment, Time, millis_of, position_of
from lakehouse.spark.api.named_tables import Tables
from lakehouse.spark.api.row_changes import (
    Key,
    changes_of_row,
    changes_of_table,
    key_columns,
    rejected_changes,
    timeline_of,
)
from lakehouse.spark.api.states import TableState, state_of, states_frame, warn_unless_exact
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.readers.status import source_status
from lakehouse.spark.readers.views import open_views
from lakehouse.spark.session import get_session
from lakehouse.spark.table_versions import read_published, read_version


def open_lake(
    path: str = "./lake",
    *,
    catalog: str | None = None,
    schemas: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
) -> "OpenLake":
    """Open a lake for reading.

    `path` is its folder or URL. With `catalog` its tables are the catalog's, in the schemas bronze, silver,
    gold and ops, or those that `schemas` gives for them: `{"gold": "dev_gold"}`. `spark` is the session to
    use; by default the one that is there, else one of this machine.

    LakehouseError where there is no lake, or a newer lakehouse has written it.

    >>> lake = open_lake("./lake")
    >>> lake.sources()["source"].tolist()
    ['demo']
    """
    session = spark or get_session()
    place = Lake(path, catalog, dict(schemas or {}))
    readers = [Reader(session, place, *found) for found in sorted(sources(session, place).items())]
    if not readers:
        raise LakehouseError(
            f"{catalog or place.root}: expected a lake, found none; `lakehouse run` makes one"
        )
    return OpenLake(session, place, readers)


class OpenLake:
    """A lake as it was when it was opened; `refresh` looks again. Every table is `DB.TABLE`, or
    `SOURCE:DB.TABLE` where several sources have one of that name.

    Large results are Spark DataFrames, of which nothing is computed before they are used; small ones are
    pandas DataFrames, as each method says. Columns that a table's YAML masks or excludes are so everywhere
    here, but for `views`. Reading a table that is not exact gives the warning `NotExact` with the reason.
    """

    def __init__(self, spark: SparkSession, lake: Lake, readers: Iterable[Reader]) -> None:
        self.spark, self.location, self._tables = spark, lake, Tables(readers, lake.root)

    def refresh(self) -> "OpenLake":
        """The lake as it is now.

        >>> lake = lake.refresh()
        """
        place = self.location
        return open_lake(place.root, catalog=place.catalog, schemas=place.schemas, spark=self.spark)

    # --- what there is

    def sources(self) -> pd.DataFrame:
        """The sources, a row each (pandas): how far silver and gold are, open dead letters, problems.

        >>> lake.sources()[["source", "format", "dead_letters", "problems"]]
          source       format  dead_letters problems
        0   demo  ticdc-open             0       []
        """
        return logs.sources_frame(
            [
                (one, source_status(self.spark, self.location, one.source, None))
                for one in self._tables.every()
            ]
        )

    def tables(self) -> pd.DataFrame:
        """The published tables, a row each (pandas): `state` and `why`, up to which place of the source their
        rows are (`upto`, `upto_time`), and where they lie. The columns are those of TableState.

        >>> lake.tables()[["table", "state", "upto"]]
                  table  state                                              upto
        0  shop.clients  exact  2026-11-21 01:07:00 UTC (TSO 470606995849740288)
        1   shop.orders  exact  2026-11-21 01:07:00 UTC (TSO 470606995849740288)
        """
        entries = (
            (one, entry) for one in self._tables.every() if one.manifest for entry in one.manifest.tables
        )
        return states_frame([state_of(reader, entry) for reader, entry in entries])

    def state(self, table: str) -> TableState:
        """Whether a table equals its source, and why not.

        >>> lake.state("shop.orders").state
        'exact'
        """
        return state_of(*self._tables.published(table))

    def key(self, table: str) -> list[str]:
        """The names of the columns of a table's key, as gold has them; none where it has no key.

        >>> lake.key("shop.orders")
        ['id']
        """
        return [column.name for column in key_columns(*self._tables.life(table))]

    # --- rows

    def table(self, table: str, manifest: int | None = None) -> DataFrame:
        """A table's rows as published last, or by the manifest of that number (see `manifests`).

        >>> lake.table("shop.clients").orderBy("id").select("id", "name").show()
        +---+----------+
        | id|      name|
        +---+----------+
        |  1|     Alice|
        |  4|       Dan|
        | 30|Zoë Müller|
        +---+----------+
        """
        if manifest is None:
            reader, entry = self._tables.published(table)
            warn_unless_exact(reader, entry)
            return read_published(self.spark, self.location, entry)
        reader, entries = self._tables.of_manifest(manifest)
        if table not in entries:
            advice = did_you_mean(table, entries)
            raise LakehouseError(f"{table}: expected a table of manifest {manifest}; {advice}")
        entry = entries[table]
        warn_unless_exact(reader, entry)
        return read_version(self.spark, self.location, entry)

    def table_at(self, table: str, moment: Moment) -> DataFrame:
        """A table's rows at any moment of its source up to the watermark, folded from silver. A name
        means the table that had it then, dropped or not; else the one that has it now, whatever it was
        called. LakehouseError where it did not exist then.

        >>> early = lake.table_at("shop.customers", "2026-11-21 01:06:59.850")
        >>> early.select("id", "name").orderBy("id").show()
        +---+----------+
        | id|      name|
        +---+----------+
        |  1|     Alice|
        |  2|       Bob|
        |  3|Zoë Müller|
        +---+----------+
        """
        reader, lineages = self._tables.lives(table)
        position = position_of(reader, moment)
        named = {".".join(name): one for name, one in reader.live_at(position).items()}
        name = self._tables.named(table)[1]
        # a table of several is no one's, though one of them may have its name
        then = named.get(name) if reader.options(lineages[0]).merged != name else None
        lineages = [then] if then is not None else lineages
        self._warn(reader, lineages[0], position)
        return rows_at(reader, table, lineages, position).frame

    def diff(self, table: str, older: Moment, newer: Moment) -> DataFrame:
        """The rows that differ between two moments: `change` (added, removed, changed), the key's columns,
        the `columns` whose values differ, and the row `before` and `after`. Columns that only one of the two
        moments has are not compared.

        >>> found = lake.diff("shop.clients", "2026-11-21 01:07:00", None)
        >>> found.select("change", "id", "columns").orderBy("id").show()
        +-------+---+-------+
        | change| id|columns|
        +-------+---+-------+
        |removed|  2|   NULL|
        |  added|  4|   NULL|
        +-------+---+-------+
        """
        reader, lineages = self._tables.lives(table)
        positions = [position_of(reader, one) for one in (older, newer)]
        self._warn(reader, lineages[0], max(positions))
        before = rows_at(reader, table, lineages, positions[0])
        return difference(before, rows_at(reader, table, lineages, positions[1]))

    # --- changes

    def changes(self, table: str, since: Moment = None, until: Moment = None) -> DataFrame:
        """A table's changes after `since` up to `until` (None: all that have arrived), through its renames:
        `committed_at`, `op`, the names of the columns that an update `changed`, the row `before` and `after`
        under the newest schema, and whether gold has taken it (`published`).

        >>> updates = lake.changes("shop.orders").where("op = 'update'")
        >>> updates.orderBy("position").select("key", "changed", "after.status").show()
        +------+--------------+-------+
        |   key|       changed| status|
        +------+--------------+-------+
        |[1001]|      [status]|   paid|
        |[1002]|[status, tags]|shipped|
        |[1001]|[status, tags]|shipped|
        |[1001]|      [amount]|shipped|
        +------+--------------+-------+
        """
        reader, lineage = self._tables.life(table)
        ends = [None if one is None else position_of(reader, one) for one in (since, until)]
        return changes_of_table(reader, lineage, *ends)

    def history_of(self, table: str, key: Key) -> DataFrame:
        """The changes of one row, oldest first, with the columns of `changes`. A key of several columns is a
        tuple in the key's order, or a dict by column. Values are as gold shows them: of a hashed column the
        hash.

        >>> history = lake.history_of("shop.clients", 4)
        >>> history.select("op", "changed", "after.vip").show()
        +------+-------+---+
        |    op|changed|vip|
        +------+-------+---+
        |insert|   NULL|  0|
        |update|  [vip]|  1|
        +------+-------+---+
        """
        return changes_of_row(*self._tables.life(table), key)

    def timeline(self, table: str, key: Key, last: int = 24) -> pd.DataFrame:
        """The last changes of one row with the statements between them (pandas): committed_at, op (`ddl` of a
        statement), `text`, and `values`: the row afterwards, by column, or None where it is gone.

        >>> lake.timeline("shop.clients", 4)[["op", "text"]]
               op    text
        0  insert  insert
        1  update  update
        """
        return timeline_of(*self._tables.life(table), key, last=last)

    def rejected(self, table: str) -> DataFrame:
        """The changes that a table's expectations keep out of gold, with the `reasons`; else the columns of
        `changes`.

        >>> lake.rejected("shop.orders").count()
        0
        """
        return rejected_changes(*self._tables.life(table))

    # --- the source over time

    def ddl(self, table: str | None = None) -> DataFrame:
        """The DDL statements of all sources, or those of a table's life, in their order.

        >>> lake.ddl("shop.clients").select("committed_at", "ddl").show(truncate=40)
        +-----------------------+----------------------------------------+
        |           committed_at|                                     ddl|
        +-----------------------+----------------------------------------+
        ...
        """
        if table is None:
            frames = [logs.statements(one) for one in self._tables.every() if one.done is not None]
        else:
            frames = [logs.statements(*self._tables.life(table))]
        return logs.united(frames).orderBy("source", "position")

    def activity(self, *tables: str, since: Time = None, until: Time = None, most: int = 60) -> pd.DataFrame:
        """How many changes each table had when, by kind (pandas: at, table, op, changes), of all tables or
        those named. From `since` on, before `until`. Time is cut into at most `most` intervals;
        `attrs["per"]` is the word for one.

        >>> lake.activity().groupby(["table", "op"])["changes"].sum()
        table         op
        shop.clients  delete    2
                      insert    5
                      update    2
        shop.orders   delete    1
                      insert    5
                      update    4
        Name: changes, dtype: int64
        """
        span = activity.Span(millis_of(since), millis_of(until))
        names = [self._tables.named(one)[1] for one in tables]
        return activity.activity_of(self._tables.every(), names, span, most)

    def lag(self) -> pd.DataFrame:
        """Silver's last batches, at most 400 of each source (pandas): when each was finished (`at`), up to
        which time of the source all had arrived then (`upto`), the seconds between (`lag_seconds`), and its
        counts.

        >>> lake.lag()[["batch", "messages", "changes", "duplicate", "ddl"]]
           batch  messages  changes  duplicate  ddl
        0      1        58       19          7   27
        """
        return activity.lag_of(self._tables.every())

    def manifests(self, last: int = 100) -> pd.DataFrame:
        """The last published states of gold (pandas): `number`, when it was published, up to which place,
        and how many tables were exact, incomplete, behind and retired.

        >>> lake.manifests()[["number", "source", "exact", "incomplete", "behind"]]
           number source  exact  incomplete  behind
        0       0   demo      2           0       0
        """
        return activity.manifests_frame(self._tables.manifests, last)

    def at_manifest(self, number: int) -> dict[str, DataFrame]:
        """Every table that a manifest has published, at the version that belongs to it. LakehouseError where
        there is no manifest of that number.

        >>> sorted(lake.at_manifest(0))
        ['shop.clients', 'shop.orders']
        """
        reader, entries = self._tables.of_manifest(number)
        for entry in entries.values():
            warn_unless_exact(reader, entry)
        return {name: read_version(self.spark, self.location, one) for name, one in entries.items()}

    def dead_letters(self, with_bytes: int = 0) -> DataFrame:
        """Messages and rows that could not be decoded: why, where their bytes are, and whether they are
        `open`. `with_bytes` adds so many of the message's first bytes, which nothing masks.

        >>> lake.dead_letters().groupBy("code").count().count()
        0
        """
        return logs.united([logs.dead_letters(one, with_bytes) for one in self._tables.every()])

    def quality(self) -> DataFrame:
        """How each expectation of each table did in each run: source, table, expectation, action, at,
        checked, failed.

        >>> lake.quality().count()
        0
        """
        return logs.united([logs.quality(one) for one in self._tables.every()])

    def views(self, at: str | None = None) -> dict[str, DataFrame]:
        """Every table as a temp view for SQL, by the view's name (lakehouse/spark/readers/views.py). Gold's
        are those of the last manifest, or of the newest one at a moment. `changes`, `rejected` and `bronze`
        hold values whole.

        >>> views = lake.views()
        >>> lake.spark.sql("SELECT count(*) AS n FROM gold_shop__clients").first().n
        3
        """
        return open_views(self.spark, self.location, at)

    def _warn(self, reader: Reader, lineage: Lineage, position: Position) -> None:
        entries = reader.manifest.tables if reader.manifest else ()
        entry = next((one for one in entries if lineage.id in one.lineages), None)
        if entry is not None:
            warn_unless_exact(reader, entry, position, depth=4)
