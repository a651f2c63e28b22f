"""Options of the feeds that their messages do not tell, by the formats that have them. Data only; the rows of
FORMATS put them together.

A module reads its options with `options.get(name, default)`; what stands here is what config and the CLI
accept.
"""

from lakehouse.formats.row import Option

_BOOLEAN = ("false", "true")
_CSV = ("protocol", "csv")

TIME_ZONE = Option(
    "UTC", "zone of the server that prints TIMESTAMP text: an IANA name, or an offset such as +08:00"
)
SERVER = Option(
    "mysql",
    "whose rules convert values at MODIFY COLUMN and fill new columns: `mysql` or `mariadb`, with the "
    "version where it matters, such as `mysql 5.7` or `mariadb 10.6`",
    pattern=r"(?:mysql|mariadb)(?: \d{1,3}(?:\.\d{1,3}){0,3})?",
    expected="mysql or mariadb, and its version behind it where that matters, such as `mariadb 10.6`",
    same_events=True,
)
CHARSET = Option(
    "",
    "character_set_server: the charset of databases whose CREATE DATABASE names none, or came before the "
    "feed",
    pattern=r"[a-z][a-z0-9]{2,15}",
    expected="the name of a charset, such as utf8mb4",
    same_events=True,
)
COMPRESSION = {
    "compression": Option(
        "none",
        "large-message-handle-compression of the changefeed",
        ("none", "lz4", "snappy"),
        ("large-message-handle-compression",),
        same_events=True,
    )
}
LARGE = {
    **COMPRESSION,
    "claim_check": Option("", "folder that holds the claim-check files", same_events=True),
    "claim_check_raw": Option(
        "false",
        "claim-check-raw-value: the file is the message's value itself",
        _BOOLEAN,
        ("claim-check-raw-value",),
        same_events=True,
    ),
}
OPEN_OLD_VALUE = {
    "output-old-value": Option(
        "true",
        "output-old-value of the changefeed: where it is off, an update of a table without a key looks like "
        "an insert, and the table is incomplete",
        _BOOLEAN,
    )
}
TIDB_EXTENSION = Option(
    "auto",
    "enable-tidb-extension: without it order is arrival and there is no watermark",
    ("auto", "true", "false"),
    ("enable-tidb-extension",),
)
DEBEZIUM = {
    "server": SERVER,
    "compacted": Option(
        "false",
        "whether topics are compacted (cleanup.policy=compact): changes that it took out are then no "
        "reason to call a table incomplete, and changes that were lost are not noticed by those around them",
        _BOOLEAN,
        same_events=True,
    ),
    "binlog_transaction_compression": Option(
        "false",
        "whether a MySQL source with GTIDs has it on, or a MariaDB source has binlog_legacy_event_pos=OFF "
        "(the default of 11.4): all rows of a transaction have one place then, and only their numbers in "
        "it (provide.transaction.metadata) tell their order",
        _BOOLEAN,
    ),
    "decimal_handling_mode": Option(
        "precise",
        "decimal.handling.mode, where schemas are off",
        ("precise", "string", "double"),
        ("decimal.handling.mode",),
    ),
    "time_precision_mode": Option(
        "adaptive_time_microseconds",
        "time.precision.mode, where schemas are off",
        (
            "adaptive_time_microseconds",
            "adaptive",
            "connect",
            "isostring",
            "microseconds",
            "nanoseconds",
            "structured",
        ),
        ("time.precision.mode",),
    ),
    "binary_handling_mode": Option(
        "bytes",
        "binary.handling.mode",
        ("bytes", "base64", "base64-url-safe", "hex"),
        ("binary.handling.mode",),
    ),
}
# The storage sink's settings by their producer's names.
STORAGE = {
    "protocol": Option("canal-json", "protocol of the data files", ("canal-json", "csv")),
    "date-separator": Option(
        "day",
        "how folders are dated; only `year` must be told",
        ("none", "year", "month", "day"),
        same_events=True,
    ),
    "file-index-width": Option(
        "20",
        "digits of a file's number; read from the names, so it need not be told",
        spelled=("file-index-digit",),
        same_events=True,
    ),
    "enable-partition-separator": Option(
        "true", "whether a partition has its own folder", _BOOLEAN, same_events=True
    ),
    "use-table-id-as-path": Option("false", "whether a table's folder is its id", _BOOLEAN, same_events=True),
    "enable-tidb-extension": Option("false", "canal-json: whether rows carry their commit ts", _BOOLEAN),
    "terminator": Option("\r\n", "what ends a row, in both protocols"),
    "delimiter": Option(",", "csv: one to three characters", only_with=_CSV),
    "quote": Option('"', "csv: one character, or empty: backslash escapes", only_with=_CSV),
    "null": Option("\\N", "csv: the word for NULL", only_with=_CSV),
    "include-commit-ts": Option("false", "csv: whether rows carry their commit ts", _BOOLEAN, only_with=_CSV),
    "output-old-value": Option(
        "false", "csv: whether an update is a D and an I row", _BOOLEAN, only_with=_CSV
    ),
    "output-handle-key": Option(
        "false",
        "csv: whether the row handle is a field (classic architecture only)",
        _BOOLEAN,
        only_with=_CSV,
    ),
    "output-field-header": Option(
        "false",
        "csv: whether files begin with a header; seen in the files, so it need not be told",
        _BOOLEAN,
        only_with=_CSV,
        same_events=True,
    ),
    "binary-encoding-method": Option(
        "base64", "csv: how binary values are written", ("base64", "hex"), only_with=_CSV
    ),
    "virtual-columns": Option(
        "",
        "VIRTUAL columns that no statement of the feed tells: database.table.column, comma-separated",
    ),
    "time_zone": TIME_ZONE,
}
