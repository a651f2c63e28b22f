"""Settings of the producers that destroy fidelity: what they are unless said, the values that destroy, and
what they cost. Data only; the rows of FORMATS put them together.
"""

from lakehouse.formats.row import Setting

Settings = dict[str, Setting]

BINLOG: Settings = {
    "binlog_format": Setting(
        None, "statement|mixed", "changes of rows may come as statements, which nothing here executes"
    ),
    "binlog_row_image": Setting(
        None,
        "minimal|noblob",
        "columns that did not change are absent, and a row can't always be found",
    ),
    "binlog_row_value_options": Setting(None, "PARTIAL_JSON", "changes inside JSON values are lost"),
}
COMPACTED: Settings = {
    "cleanup.policy": Setting(
        None,
        "compact|.*compact.*",
        "a compacted topic drops intermediate versions and deletes",
    )
}
TICDC: Settings = {
    "only-output-updated-columns": Setting(None, "true", "old images lack the columns that did not change"),
    "column-selectors": Setting(None, ".+", "columns that are left out are unknown, not NULL"),
    "output-raw-change-event": Setting(
        None,
        "true",
        "updates of a key come unsplit, and without old values the old row stays",
    ),
    "event-filters": Setting(
        None, ".+", "rows and updates that a rule leaves out are gone, and a DDL while its rows go on"
    ),
    "ignore-txn-start-ts": Setting(None, ".+", "transactions that are left out leave no trace"),
    "bdr-mode": Setting(
        None, "true", "rows that another changefeed wrote are not sent, nor DDL but of a primary cluster"
    ),
    "force-replicate": Setting(
        None, "false", "tables without a key are not sent, nor the statement that takes one its last key"
    ),
}
TICDC_KAFKA: Settings = COMPACTED | {
    "dispatcher": Setting(
        None,
        "ts",
        "the rows of one key spread over all partitions, whose order then means nothing",
    ),
    "delete-only-output-handle-key-columns": Setting(None, "true", "deletes carry the key alone"),
    "large-message-handle-option": Setting(
        None,
        "handle-key-only",
        "large rows come without values and become dead letters",
    ),
}
EXTENSION: Settings = {
    "enable-tidb-extension": Setting(
        None,
        "false",
        "no commit time and no watermark is sent: order is arrival order only",
    )
}
STORAGE: Settings = EXTENSION | {
    "enable-partition-separator": Setting(
        None,
        "false",
        "the classic architecture, and the new one before 8.5.6, write files of several partitions over each "
        "other",
    )
}
OPEN_PROTOCOL: Settings = {
    "output-old-value": Setting(None, "false", "an update can't be told from an insert")
}
TICDC_DEBEZIUM: Settings = {"output-old-value": Setting(None, "false", "old images are not sent")}
CANAL: Settings = {
    "canal.instance.filter.query.ddl": Setting(
        None, "true", "the table's shape goes stale and columns shift"
    ),
    "canal.instance.filter.query.dml": Setting(None, "true", "statements that changed rows leave no trace"),
    "canal.instance.filter.query.dcl": Setting(
        None, "true", "statements that Canal's parser does not know, DROP DATABASE too, leave no trace"
    ),
    "canal.instance.filter.table.error": Setting(None, "true", "rows that fit no known table are left out"),
    "canal.instance.filter.rows": Setting(None, "true", "no row is sent"),
    "canal.instance.filter.dml.insert": Setting(None, "true", "no insert is sent"),
    "canal.instance.filter.dml.update": Setting(None, "true", "no update is sent"),
    "canal.instance.filter.dml.delete": Setting(None, "true", "no delete is sent"),
    **dict.fromkeys(
        ("canal.instance.filter.field", "canal.instance.filter.black.field"),
        Setting(None, ".+", "columns that are left out are unknown, not NULL"),
    ),
    "canal.instance.filter.regex": Setting(
        None,
        r"(?!\.\*\\+\.\.\*$).+",
        "a table that a RENAME takes out of it goes on without its changes",
    ),
    "canal.instance.filter.black.regex": Setting(
        None, ".+", "a table that a RENAME takes into it goes on without its changes"
    ),
    "canal.instance.tsdb.enable": Setting(
        None, "false", "a Canal that lags behind an ALTER sends earlier rows under the columns of after it"
    ),
    "canal.instance.connectionCharset": Setting(
        None,
        "gbk|gb2312|gb18030|big5|iso-8859-1|latin1",
        "text of columns in UTF-8 is other text",
    ),
    "canal.mq.partitionHash": Setting(
        None,
        ".+",
        "an update that changes the key moves to another partition, out of order",
    ),
    "canal.auto.reset.latest.pos.mode": Setting(
        None, "true", "where the binlog that it needs is gone, it goes on at the end without a word"
    ),
    "canal.instance.detecting.heartbeatHaEnable": Setting(
        None, "true", "a switch to the standby sends the last minute again, out of another binlog"
    ),
    "log_bin_compress": Setting(
        None,
        "on|1|true",
        "(MariaDB) long statements are not sent, nor, before Canal 1.1.7, long rows",
    ),
    "binlog_transaction_compression": Setting(
        None, "on|1|true", "Canal before 1.1.7 sends none of its transactions"
    ),
}
CANAL_PROTOBUF: Settings = {
    "binlog_transaction_compression": Setting(
        None,
        "on|1|true",
        "Canal before 1.1.7 sends none of its transactions, and all rows of one have one place: of several "
        "messages each numbers its own",
    ),
    "binlog_legacy_event_pos": Setting(
        None,
        "off|0|false",
        "(MariaDB 11.4, where it is the default) rows have no place, and are dead letters",
    ),
}
_ONE_PLACE = (
    "all rows of a transaction have one place, and only provide.transaction.metadata=true tells their order, "
    "with `options: {binlog_transaction_compression: true}`"
)
DEBEZIUM: Settings = {
    "event.processing.failure.handling.mode": Setting(
        None, "warn|skip|ignore", "events that the connector can't process are left out"
    ),
    **dict.fromkeys(
        ("table.include.list", "table.exclude.list"),
        Setting(
            None,
            ".+",
            "tables that it leaves out are taken for empty ones, for their statements come; `status` has a "
            "note on each table of which no row has come",
        ),
    ),
    **dict.fromkeys(
        ("database.include.list", "database.exclude.list"),
        Setting(
            None,
            ".+",
            "tables of databases that it leaves out are taken for empty ones, for their statements come, but "
            "with schema.history.internal.store.only.captured.databases.ddl=true",
        ),
    ),
    **dict.fromkeys(
        ("gtid.source.includes", "gtid.source.excludes"),
        Setting(None, ".+", "rows are left out that other servers wrote first"),
    ),
    "field.name.adjustment.mode": Setting(
        None, "avro|avro_unicode", "columns whose names it changes are unknown"
    ),
    **dict.fromkeys(
        ("schema.history.internal.skip.unparseable.ddl", "database.history.skip.unparseable.ddl"),
        Setting(
            None, "true", "rows behind a statement that it can't parse are read by the columns before it"
        ),
    ),
    **dict.fromkeys(
        ("database.connectionTimeZone", "driver.connectionTimeZone"),
        Setting(None, ".+", "where it is not the server's zone, a snapshot's TIMESTAMPs are other times"),
    ),
    "snapshot.locking.mode": Setting(
        None, "none", "a snapshot may hold rows of after its place: without a key they are there twice"
    ),
    "snapshot.fetch.size": Setting(
        None,
        "[1-9][0-9]*",
        "(MySQL's connector) a TIME loses its sign and its fraction in a snapshot, and 00:00:00 is NULL",
    ),
    "read.only": Setting(
        None, "true", "rows of an incremental snapshot are of a later time than the place that they have"
    ),
    "event.converting.failure.handling.mode": Setting(
        None, "warn|skip", "values that the connector can't convert are NULL"
    ),
    "inconsistent.schema.handling.mode": Setting(
        None, "warn|skip", "rows of tables that the connector has no schema of are left out"
    ),
    "errors.tolerance": Setting(None, "all", "records that a transform or converter can't take are left out"),
    "snapshot.new.tables": Setting(
        None, "parallel", "the snapshot of new tables looks like one of all, so that the others are retired"
    ),
    "post.processors": Setting(
        None, ".+", "a column that is read again has a later value than its change gave it"
    ),
    "snapshot.include.collection.list": Setting(
        None, ".+", "tables that the snapshot leaves out are taken for empty ones"
    ),
    "snapshot.select.statement.overrides": Setting(
        None, ".+", "rows that the snapshot's query leaves out are taken for none"
    ),
    "converters": Setting(
        None, ".+", "a converter may send other values: 1 for any number but 0, a real date for a zero one"
    ),
    "transforms.NAME.type": Setting(
        None,
        "(?!.*(ExtractNewRecordState|RegexRouter)$).+",
        "a transform may change values: ByLogicalTableRouter sends a column's default for NULL, "
        "TimezoneConverter a DATETIME of another zone",
    ),
    **dict.fromkeys(
        ("column.include.list", "column.exclude.list"),
        Setting(None, ".+", "columns that it leaves out are unknown, not NULL"),
    ),
    "unavailable.value.placeholder": Setting(
        None, ".+", "under binlog_row_image=NOBLOB it would be stored in place of a text or bytes"
    ),
    "column.truncate.to.N.chars": Setting(None, ".+", "longer text is cut"),
    **dict.fromkeys(
        ("column.mask.with.N.chars", "column.mask.hash"),
        Setting(None, ".+", "values are asterisks or hashes"),
    ),
    "message.key.columns": Setting(
        None, ".+", "rows of a snapshot that share such a key are told apart by nothing: their table is held"
    ),
    "delete.tombstone.handling.mode": Setting(
        None,
        "drop|tombstone|delete-to-tombstone",
        "deletes of unwrapped rows are not seen, but by `add.headers`",
    ),
    "delete.handling.mode": Setting(
        None,
        "drop|none",
        "before 2.5, where drop is the default: deletes of unwrapped rows are not sent, or by `add.headers` "
        "alone",
    ),
    "skipped.operations": Setting(
        "t", "(.*,)?\\s*[cudt]\\s*(,.*)?", "changes of that kind (t: truncates) never arrive"
    ),
    "include.schema.changes": Setting(
        None, "false", "tables that were dropped or renamed stay, and without schemas no column has a type"
    ),
    "bigint.unsigned.handling.mode": Setting(
        "long",
        "long",
        "BIGINT UNSIGNED of 2^63 and above wraps to negative numbers",
    ),
    "decimal.handling.mode": Setting("precise", "double", "decimals are rounded to doubles"),
    "time.precision.mode": Setting(
        None,
        "adaptive|connect|isostring|nanoseconds",
        "times that the mode can't hold are lost",
    ),
    "replace.null.with.default": Setting(
        "true", "true", "NULL in a column with a default becomes the default"
    ),
    # as the server says it: that the option says true answers it, but without transactions (FORMATS)
    "binlog_transaction_compression": Setting(None, "on|1", _ONE_PLACE),
    "binlog_legacy_event_pos": Setting(None, "off|0|false", _ONE_PLACE),
}
TENCENT_DTS: Settings = {
    "SubscribeMode": Setting(
        None, "dml|ddl", "no statements are sent, and tables that were emptied or dropped stay; or no rows"
    ),
    "SubscribeObjects": Setting(
        None,
        ".+",
        "statements come of all tables: those that it leaves out are taken for empty ones, and one that a "
        "RENAME takes out of it goes on without its changes",
    ),
    "ProcessXA": Setting(
        None, "false", "XA transactions are not handled: what is sent of their rows is not documented"
    ),
    "binlog_transaction_compression": Setting(
        None, "on|1|true", "all rows of a transaction may have one place, and of equal rows one is kept"
    ),
    "binlog_legacy_event_pos": Setting(
        None,
        "off|0|false",
        "(MariaDB 11.4, where it is the default) rows have no place, and are dead letters",
    ),
}
