"""The configuration's models: every option of a source and of a table, with its meaning and its default.

Files hold secrets only as references (lakehouse/config/secrets.py), so that no model, error or log has one.
The descriptions are the documentation: docs/configuration.md and the JSON Schemas are generated from them.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from lakehouse.config.options import decoder_options
from lakehouse.config.value_types import Duration, Model, OptionText, OrText, Size, Starting, Text, TextOrList
from lakehouse.formats import FORMATS
from lakehouse.lineage import split_name

if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS)]
Consistency = Literal["resolved", "eventual"]
Edit = Literal[
    "add_column",
    "drop_column",
    "rename_column",
    "modify_column",
    "alter_default",
    "add_primary_key",
    "drop_primary_key",
    "rename_table",
    "drop_table",
    "truncate_table",
    "truncate_partition",
    "drop_partition",
    "exchange_partition",
    "recover_table",
    "drop_database",
]


def _lake(value: object) -> object:
    return {"path": value} if isinstance(value, str) else value


class KafkaInput(Model):
    """The topics of a Kafka cluster that a source reads."""

    bootstrap_servers: Text = Field(description="Brokers as host:port, comma-separated.")
    topics: list[Text] | None = Field(
        default=None, min_length=1, description="The topics by name; or use topic_pattern."
    )
    topic_pattern: Text | None = Field(
        default=None, description="A regular expression that whole topic names match; or use topics."
    )
    starting: Starting = Field(
        default="earliest",
        description=(
            "Where the first run starts: earliest, latest, `timestamp:2026-11-21T09:00:00Z`, or "
            "offsets `{topic: {0: 15}}`."
        ),
    )
    options: dict[str, OptionText] = Field(
        default={},
        description="Kafka consumer properties, each with the prefix kafka., for SASL, SSL and tuning.",
    )
    partitions: int | None = Field(
        default=None,
        ge=1,
        description=(
            "The number of partitions the changefeed writes to, where the topic has more of them "
            "than it was told of."
        ),
    )
    default_topic: Text | None = Field(
        default=None, description="The topic of database-level DDL; it must be among those read."
    )


class StorageInput(Model):
    """The folder of a TiCDC storage sink that a source reads."""

    path: Text = Field(
        description="The sink's root: a local folder or a URL that Spark reads, such as s3a://bucket/prefix."
    )


class DatabaseInput(Model):
    """The database behind a source's feed, for commands that read it: an account that may read is enough."""

    host: Text = Field(description="The server's host name or address.")
    port: int = Field(default=3306, ge=1, le=65535, description="Its port for MySQL's protocol.")
    user: Text = Field(description="The account, with SELECT on the tables and REPLICATION CLIENT.")
    password: str = Field(
        default="", description="Its password, by reference: `${env:NAME}` or `${secret:scope/key}`."
    )
    tls: Literal["verified", "unverified", "off"] = Field(
        default="verified",
        description="verified: encrypted, with a certificate of a known authority for this host; "
        "unverified: encrypted; off: in plain text.",
    )
    ca: Text | None = Field(
        default=None,
        description="A PEM file with the authority of the server's certificate. Default: the system's.",
    )


class Batch(Model):
    """The largest size of one batch."""

    max_records: int = Field(
        default=1_000_000,
        ge=1,
        description="Messages or files in one batch. Bronze lands up to half as many messages more, so "
        "that no small batch is left.",
    )
    max_bytes: Size = Field(default=256 * 2**20, ge=1, description="Bytes in one batch, such as 256MiB.")


class Lake(Model):
    """The location of the Delta tables: folders below a root, or the schemas of a catalog."""

    path: Text = Field(
        description=(
            "The root folder: a local path, a volume or a cloud URL. With a catalog it holds the "
            "checkpoints only."
        )
    )
    catalog: Text | None = Field(
        default=None, description="A Unity Catalog catalog, which holds the schemas below."
    )
    bronze: Text = Field(default="bronze", description="The schema of the bronze tables.")
    silver: Text = Field(default="silver", description="The schema of the silver tables.")
    gold: Text = Field(default="gold", description="The schema of the gold tables.")
    ops: Text = Field(default="ops", description="The schema of lakehouse's own tables.")


class SourceConfig(Model):
    """A source: its format, its one input (kafka, recording or storage), and its tables' shared settings."""

    name: Text | None = Field(
        default=None, description="The source's name: the file's own name without .yml, and never another."
    )
    format: FormatName = Field(description="The wire format.")
    kafka: KafkaInput | None = Field(default=None, description="Read Kafka topics.")
    recording: TextOrList | None = Field(
        default=None, description="Read one or more recordings: files of JSON lines."
    )
    storage: StorageInput | None = Field(default=None, description="Read the files of a TiCDC storage sink.")
    database: DatabaseInput | None = Field(
        default=None,
        description="The database that the feed tells of, for commands that read rows from it themselves.",
    )
    time_zone: Text | None = Field(
        default=None,
        description=(
            "The zone in which the producer prints TIMESTAMP, such as Asia/Shanghai. Unsaid, UTC "
            "is assumed with a warning."
        ),
    )
    compression: Literal["none", "lz4", "snappy"] = Field(
        default="none", description="TiCDC's large-message-handle-compression."
    )
    claim_check: Text | None = Field(
        default=None, description="The folder or URL of TiCDC's claim-check files."
    )
    options: dict[str, OptionText] = Field(
        default={}, description="Further options of the format, named as its producer names them."
    )
    upstream: dict[str, OptionText] = Field(
        default={},
        description=(
            "Settings of the producer that no message shows, named as it names them; validate "
            "warns of those that cost fidelity."
        ),
    )
    tables: Literal["auto", "configured"] = Field(
        default="configured",
        description="auto: gold holds every table it meets; configured: only those with a YAML.",
    )
    consistency: Consistency | None = Field(
        default=None,
        description="resolved: gold shows exactly what is at or below the watermark; eventual: what has "
        "arrived. "
        "Default: resolved where the format sends watermarks, else eventual.",
    )
    row_ids: Literal["sent", "absent"] = Field(
        default="absent",
        description="sent: the feed carries row ids of tables without a key. A setting of the whole epoch.",
    )
    drift_timeout: Duration | None = Field(
        default=None,
        description=(
            "How long rows that no schema fits wait for their DDL before one is inferred, such "
            "as 30m. Unsaid, they wait."
        ),
    )
    batch: Batch = Field(default=Batch(), description="How much one batch takes at most.")
    lake: Annotated[Lake, BeforeValidator(_lake), OrText()] | None = Field(
        default=None,
        description="Where the lake is: its root folder, or a mapping. Default: the command's --lake.",
    )
    accept: list[Literal["replays"]] = Field(
        default=[],
        description=(
            "replays: append and history tables of a feed in arrival order are built although a "
            "replay can count twice."
        ),
    )

    def decoder_options(self) -> dict[str, str]:
        """The options of the format's decoder, as text by name.

        In a feed with watermarks, the option that messages show (the TiDB extension) is true unless it is
        configured: a message without it has no position among the others.
        """
        configured = {
            "time_zone": self.time_zone,
            "claim_check": self.claim_check,
            "compression": self.compression,
        }
        chosen = {
            name: value
            for name, value in configured.items()
            if value is not None and name in self.model_fields_set
        }
        options = decoder_options(self.format, {**self.options, **chosen})
        detected = FORMATS[self.format].detected
        if detected and self.consistency != "eventual" and options.get(detected.name, "auto") == "auto":
            options[detected.name] = "true"
        return options


class Gold(Model):
    """Options of a gold table."""

    target: Text | None = Field(
        default=None,
        description=(
            "The gold table's name, of a table that gold does not have yet. Default: `<db>__<table>`, and "
            "`__<source>` where another source has that name."
        ),
    )
    mode: Literal["upsert", "history", "append"] = Field(
        default="upsert",
        description="upsert: one row per live row; history: every version with its times; append: the "
        "change log. "
        "Another mode is another table: it is built anew from silver.",
    )
    deletes: Literal["hard", "soft"] = Field(
        default="hard",
        description="hard: a deleted row goes; soft: it stays, marked by _deleted and _deleted_at.",
    )
    on_drop: Literal["replace", "keep"] = Field(
        default="replace",
        description="When the table is dropped and created again: replace: the new one goes on in the same "
        "gold table, a history or log after what it was; keep: a copy of the dropped one stays beside it, "
        "as `<name>_dropped`.",
    )
    cluster_by: list[Text] | None = Field(
        default=None,
        min_length=1,
        description="Liquid clustering columns, by their names in gold. Default: none.",
    )
    partition_by: list[Text] | None = Field(
        default=None,
        min_length=1,
        description="Partition columns, by their names in gold, instead of clustering.",
    )
    change_data_feed: bool = Field(
        default=False,
        description=(
            "true: Delta records the table's changes, for readers of table_changes. A rebuild is "
            "all rows once more."
        ),
    )
    deletion_vectors: bool = Field(
        default=True,
        description=(
            "A MERGE into a table of more than 400,000 rows marks the rows that it replaces instead of "
            "writing their files anew. false: for readers that know no deletion vectors."
        ),
    )
    primary_key: bool = Field(
        default=False,
        description=(
            "true: Unity Catalog shows the source's key as the table's primary key. In mode "
            "upsert, on Databricks."
        ),
    )


class ColumnConfig(Model):
    """Options of one column of a gold table."""

    type: Literal["boolean", "string", "microseconds", "decimal", "array"] | None = Field(
        default=None,
        description="bit(1): boolean; TIME: microseconds; DECIMAL and vectors: string. Default: the "
        "lossless type.",
    )
    rename: Text | None = Field(default=None, description="The column's name in gold.")
    exclude: bool = Field(default=False, description="true: gold leaves the column out.")
    mask: Literal["nullify", "redact", "last4"] | None = Field(
        default=None,
        description=(
            "Replaces the value in gold: by NULL, by stars, or all but its last four characters. "
            "Silver has it whole."
        ),
    )
    hash: Literal["sha256"] | None = Field(
        default=None,
        description=(
            "Replaces the value in gold by the hash of its text (of a binary value's bytes), "
            "which fits for a key too."
        ),
    )
    computed: Text | None = Field(
        default=None,
        description="A Spark SQL expression over gold's columns of the row; the column is gold's own.",
    )


class Expectation(Model):
    """A Great Expectations expectation over each batch."""

    expect: Annotated[str, Field(pattern="^expect_[a-z0-9_]+$")] = Field(
        description="The expectation's name, such as expect_column_values_to_not_be_null."
    )
    column: Text | None = Field(default=None, description="The column it is about, where it is about one.")
    args: dict[str, Any] = Field(default={}, description="Its further arguments, such as `{min_value: 0}`.")
    action: Literal["warn", "reject", "stop"] = Field(
        default="warn", description="warn: report; reject: keep the row out of gold; stop: end the run."
    )


class TableConfig(Model):
    """A table, or several shards that become one: options that differ from the defaults."""

    source: Text = Field(description="The source it comes from: a file of configs/sources.")
    table: Text | None = Field(
        default=None,
        description="db.table at the source, names with dots in backquotes. Default: the file's name.",
    )
    tables: TextOrList | None = Field(
        default=None,
        description=(
            "Several source tables that become one: names, or one pattern with * such as `shop.orders_*`."
        ),
    )
    key: list[Text] | None = Field(
        default=None, min_length=1, description="The key's columns, where neither messages nor DDL tell them."
    )
    gold: Gold = Field(default=Gold(), description="The gold table.")
    on_ddl: dict[Edit, Literal["evolve", "ignore", "hold", "reject"]] = Field(
        default={},
        description="What gold does at a kind of DDL: evolve: follow; ignore: keep gold's shape and "
        "rows; hold: stop the table there until "
        "`lakehouse ddl approve` or `skip`; reject: as hold, and the run fails. Default: evolve.",
    )
    columns: dict[str, ColumnConfig] = Field(default={}, description="Columns that differ from the defaults.")
    quality: list[Expectation] = Field(default=[], description="Expectations that are checked before gold.")
    accept: list[Literal["replays"]] = Field(default=[], description="As the source's, for this table alone.")

    @property
    def source_tables(self) -> tuple[tuple[str, str], ...]:
        """The (database, table) pairs that the file names; one of `tables` may be a pattern."""
        return tuple(split_name(name) for name in (self.tables or [self.table or ""]))
