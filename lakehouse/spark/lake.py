"""The location of a lake's tables: a folder of Delta tables, or schemas of a catalog. The only module that
quotes their names.

A path lake is ROOT/{bronze,silver,gold,ops}/NAME. A catalog lake is CATALOG.{bronze,silver,gold,ops}.NAME,
where the four schema names may be given (development targets rename them).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from lakehouse.ops.file_lock import commit_lock, is_remote
from lakehouse.spark.commit_files import Above, row_count, small_table
from lakehouse.spark.plain.append import append_files, append_plain, create_of_files, create_of_rows, is_plain
from lakehouse.spark.plain.create import create_mapped, create_plain, has_defaults
from lakehouse.spark.plain.files import Added
from lakehouse.spark.plain.find import Hits
from lakehouse.spark.plain.mark import merge_marked
from lakehouse.spark.plain.merge import Done, Wanted, merge_plain
from lakehouse.spark.session import reads_own_files

LAYERS = ("bronze", "silver", "gold", "ops")
# Delta's own append, which makes a checkpoint, costs as much as many without Spark (plain/append.py): on a
# machine's own disk, where opening a commit costs nothing, a new table has one every so many commits
CHECKPOINTS, COMMITS = "delta.checkpointInterval", 100
SILVER_TABLES = ("changes", "schema_changes", "watermarks", "dead_letters")

Txn = tuple[str, int]


def quote(name: str) -> str:
    """A SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _always_free() -> None:
    """Nothing is checked before a write."""


@dataclass(frozen=True, slots=True)
class Lake:
    """`root` is a folder or URL; with `catalog` set, tables are the catalog's, and `root` holds checkpoints
    only. `before_write` raises where this process may not write any more (lakehouse/spark/ops/lease.py).
    """

    root: str
    catalog: str | None = None
    schemas: dict[str, str] = field(default_factory=dict)
    # where a silver table's present generation is, if it is not the first: a source's log says it when it is
    # loaded
    present: dict[tuple[str, str], str] = field(default_factory=dict, compare=False)
    before_write: Callable[[], None] = field(default=_always_free, compare=False)

    def __post_init__(self) -> None:
        # SQL takes a relative path for a table's name in the catalog
        if self.root and not is_remote(self.root):
            object.__setattr__(self, "root", str(Path(self.root).absolute()))

    def use_generation(self, source: str, number: int) -> None:
        """Use this generation of the source's silver tables from now on."""
        for name in SILVER_TABLES:
            self.present["silver", f"{source}_{name}"] = f"{source}_{name}_g{number}"

    def path(self, layer: str, name: str) -> str:
        return f"{self.root.rstrip('/')}/{layer}/{self.present.get((layer, name), name)}"

    def ref(self, layer: str, name: str) -> str:
        """The SQL reference of a table."""
        if self.catalog is None:
            return "delta." + quote(self.path(layer, name))
        held = self.present.get((layer, name), name)
        return ".".join(quote(part) for part in (self.catalog, self.schemas.get(layer, layer), held) if part)

    def checkpoint(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/_checkpoints/{name}"

    def read(self, spark: SparkSession, layer: str, name: str, version: int | None = None) -> DataFrame:
        reader = spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return (
            reader.load(self.path(layer, name))
            if self.catalog is None
            else reader.table(self.ref(layer, name))
        )

    def folder(self, spark: SparkSession, layer: str, name: str) -> Path | None:
        """The table's folder, where it is one of this machine that this process sees as the session does."""
        if self.catalog is not None or is_remote(self.root) or not reads_own_files(spark):
            return None
        return Path(self.path(layer, name))

    def exists(self, spark: SparkSession, layer: str, name: str) -> bool:
        folder = self.folder(spark, layer, name)
        if folder is not None and not folder.exists():
            return False
        try:
            return bool(self.read(spark, layer, name).columns)
        except AnalysisException as error:
            if _is_missing(error):
                return False
            raise

    def read_or_empty(self, spark: SparkSession, layer: str, name: str, schema: StructType) -> DataFrame:
        """The table, or no rows of `schema` where it does not exist yet."""
        if self.exists(spark, layer, name):
            return self.read(spark, layer, name)
        return spark.createDataFrame(to_arrow_schema(schema).empty_table(), schema)

    def rows(
        self,
        spark: SparkSession,
        layer: str,
        name: str,
        columns: Sequence[str],
        *,
        above: Above | None = None,
    ) -> pa.Table | None:
        """The rows of a small table, all of them or those `above` a number of a column, which cost no Spark
        job where it is a plain one on this machine's own disk; None where it does not exist.
        """
        folder = self.folder(spark, layer, name)
        found = None if folder is None else small_table(folder, columns, above)
        if found is None and self.exists(spark, layer, name):
            rows = self.read(spark, layer, name)
            rows = rows if above is None else rows.where(F.col(above[0]) > above[1])
            return rows.select(*columns).toArrow()
        return found

    def read_small(self, spark: SparkSession, layer: str, name: str, schema: StructType) -> DataFrame:
        """A small table, or no rows where it does not exist yet; its rows are here at once where it is a
        plain one on this machine's own disk.
        """
        folder = self.folder(spark, layer, name)
        found = None if folder is None else small_table(folder, schema.names)
        if found is not None:
            # columns of an older lake, which have types of their own
            with suppress(pa.ArrowException):
                return spark.createDataFrame(found.cast(to_arrow_schema(schema)), schema)
        return self.read_or_empty(spark, layer, name, schema)

    def count(self, spark: SparkSession, layer: str, name: str, version: int | None = None) -> int:
        """How many rows a table has in a version, by default the newest one; 0 where it does not exist."""
        folder = self.folder(spark, layer, name)
        found = None if folder is None else row_count(folder, version)
        if found is None:
            is_there = self.exists(spark, layer, name)
            found = self.read(spark, layer, name, version).count() if is_there else 0
        return found

    def names(self, spark: SparkSession, layer: str, begin: str) -> list[str]:
        """The tables of a layer whose names begin so; none of an object store without a catalog, where
        nothing lists them.
        """
        if self.catalog is not None:
            schema = ".".join(quote(part) for part in (self.catalog, self.schemas.get(layer, layer)) if part)
            found = [row.tableName for row in spark.sql(f"SHOW TABLES IN {schema}").collect()]
        elif "://" in self.root:
            found = []
        else:
            found = [path.name for path in Path(self.path(layer, "")).glob("*")]
        return sorted(name for name in found if name.startswith(begin))

    def append(self, frame: DataFrame, layer: str, name: str, txn: Txn | None = None, **options: Any) -> None:
        """Append; with `txn` (application id, growing version) an append whose version is not above the
        last one of its id is nothing.
        """
        self._save(partial(self._append, frame, layer, name, txn, **options), layer, name)

    def _append(self, frame: DataFrame, layer: str, name: str, txn: Txn | None, **options: Any) -> None:
        if layer in ("ops", "silver") and self.folder(frame.sparkSession, layer, name) is not None:
            options = {CHECKPOINTS: str(COMMITS), **options}
        writer = frame.write.format("delta").mode("append")
        for option, value in {**_txn_options(txn), **options}.items():
            writer = writer.option(option, value)
        self._write(writer, layer, name)

    def append_rows(
        self,
        spark: SparkSession,
        layer: str,
        name: str,
        rows: Sequence[Mapping[str, Any]],
        *,
        schema: StructType,
        txn: Txn | None = None,
        mark: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Append the driver's rows, of which a column that one lacks is NULL, in one file: as `append` does,
        and without Spark where the table is a plain one on this machine's own disk. `mark` is the commit's
        userMetadata, `properties` are for a new table.
        """
        table = pa.Table.from_pylist(list(rows), schema=to_arrow_schema(schema))
        folder = self.folder(spark, layer, name)
        options = {**(properties or {}), **({} if mark is None else {"userMetadata": mark})}

        def write() -> None:
            is_done = False
            if folder is not None and (folder / "_delta_log").exists():
                is_done = append_plain(folder, table, txn, mark)
            elif folder is not None and layer != "bronze" and not has_defaults(spark):
                said = {CHECKPOINTS: str(COMMITS), **(properties or {})}
                is_done = create_of_rows(folder, table, schema, txn=txn, mark=mark, properties=said)
            if not is_done:
                self._append(spark.createDataFrame(table, schema).coalesce(1), layer, name, txn, **options)

        self._save(write, layer, name)

    def files_folder(
        self, spark: SparkSession, layer: str, name: str, schema: StructType | None = None
    ) -> Path | None:
        """Where Spark's workers may write files of a new table, or with `schema` of a plain one that has
        these columns; None where that can't be.
        """
        folder = self.folder(spark, layer, name)
        if folder is None:
            return None
        if (folder / "_delta_log").exists():
            return folder if schema is not None and is_plain(folder, schema) else None
        return None if has_defaults(spark) else folder

    def append_files(
        self,
        spark: SparkSession,
        layer: str,
        name: str,
        files: Sequence[Added],
        *,
        schema: StructType,
        txn: Txn,
        properties: Mapping[str, str],
    ) -> bool:
        """Append files that lie in the folder of a plain table, or make the table of them, with `properties`;
        False where nothing was done.
        """
        folder = self.files_folder(spark, layer, name, schema)
        if folder is None:
            return False
        with self.committing(layer, name):
            if (folder / "_delta_log").exists():
                return append_files(folder, files, schema, txn)
            said = {CHECKPOINTS: str(COMMITS), **properties}
            return create_of_files(folder, files, schema, txn=txn, properties=said)

    def append_shared(self, frame: DataFrame, name: str) -> None:
        """Append to a table of `ops` that several runs write to. Two of them may make it at one moment: the
        second, which sessions and catalogs tell in their own ways, appends to what the first has made.
        """
        spark = frame.sparkSession
        is_there = self.exists(spark, "ops", name)
        try:
            self.append(frame, "ops", name)
        except Exception:
            if is_there or not self.exists(spark, "ops", name):
                raise
            self.append(frame, "ops", name)

    def create_rows(
        self,
        spark: SparkSession,
        name: str,
        rows: pa.Table,
        *,
        schema: StructType,
        properties: Mapping[str, str],
    ) -> bool:
        """Make a gold table of the driver's rows without Spark; False where nothing was done, and Delta has
        to do it (lakehouse/spark/plain/create.py).
        """
        folder = self.folder(spark, "gold", name)
        if folder is None or has_defaults(spark):
            return False
        with self.committing("gold", name):
            return create_plain(folder, rows, schema, properties)

    def create_files(
        self,
        spark: SparkSession,
        name: str,
        files: Sequence[Added],
        *,
        fields: list[StructField],
        properties: Mapping[str, str],
    ) -> bool:
        """Make a gold table of files that lie in its folder already, whose columns `mapped_fields` gave;
        False where nothing was done, and the files are the caller's.
        """
        folder = self.files_folder(spark, "gold", name)
        if folder is None:
            return False
        with self.committing("gold", name):
            return create_mapped(folder, fields, files, properties)

    def merge_rows(
        self, spark: SparkSession, name: str, wanted: Wanted, known: Hits | None = None
    ) -> Done | None:
        """Merge the driver's rows by key into a gold table without Spark; None where nothing was done, and a
        MERGE has to do it (lakehouse/spark/plain/merge.py, lakehouse/spark/plain/mark.py).
        """
        folder = self.folder(spark, "gold", name)
        if folder is None:
            return None
        with self.committing("gold", name):
            return merge_plain(folder, wanted) or merge_marked(folder, wanted, known)

    def overwrite(
        self,
        frame: DataFrame,
        layer: str,
        name: str,
        properties: dict[str, str] | None = None,
        partition_by: Sequence[str] = (),
    ) -> None:
        """One commit that replaces rows, schema and partitioning; keeps the table's id and history.
        `properties` are for a new table.
        """
        writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        if partition_by:
            writer = writer.partitionBy(*partition_by)
        for option, value in (properties or {}).items():
            writer = writer.option(option, value)
        self._save(partial(self._write, writer, layer, name), layer, name)

    def replace_where(self, frame: DataFrame, layer: str, name: str, condition: str) -> None:
        """One commit that replaces the rows of a condition, which all rows of the frame meet; the frame may
        bring new columns.
        """
        writer = (
            frame.write.format("delta")
            .mode("overwrite")
            .option("mergeSchema", "true")
            .option("replaceWhere", condition)
        )
        self._save(partial(self._write, writer, layer, name), layer, name)

    def _save(self, write: Callable[[], None], layer: str, name: str) -> None:
        with self.committing(layer, name):
            write()

    def _write(self, writer: Any, layer: str, name: str) -> None:
        if self.catalog is None:
            writer.save(self.path(layer, name))
        else:
            writer.saveAsTable(self.ref(layer, name))

    @contextmanager
    def committing(self, layer: str, name: str) -> Iterator[None]:
        """Around a commit; errors where this process may not write any more. Runs of several layers and
        sources write to the tables of `ops`, a run and an import to bronze; each of the others is one run's.
        """
        self.before_write()
        if layer in ("ops", "bronze") and self.catalog is None:
            with commit_lock(self.root, name if layer == "ops" else f"{layer}.{name}"):
                yield
        else:
            yield


def _txn_options(txn: Txn | None) -> dict[str, Any]:
    return {} if txn is None else {"txnAppId": txn[0], "txnVersion": txn[1]}


def _is_missing(error: AnalysisException) -> bool:
    condition = error.getCondition() or ""
    return condition in (
        "PATH_NOT_FOUND",
        "TABLE_OR_VIEW_NOT_FOUND",
        "SCHEMA_NOT_FOUND",
    ) or condition.startswith(
        (
            "DELTA_TABLE_NOT_FOUND",
            "DELTA_PATH_DOES_NOT_EXIST",
            "DELTA_MISSING_DELTA_TABLE",
            "DELTA_READ_TABLE_WITHOUT_COLUMNS",
        )
    )
