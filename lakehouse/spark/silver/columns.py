"""The columns of decoded events between a Python worker and Spark."""

POSITION = "struct<epoch:bigint,p1:bigint,p2:bigint,p3:bigint,p4:bigint,p5:bigint>"


CHANGE_COLUMNS: dict[str, str] = {
    "database": "string",
    "table": "string",
    "key": "string",
    "op": "string",
    "commit_ts": "bigint",
    "position": POSITION,
    "before": "string",
    "after": "string",
    "types": "string",
    "encoding": "string",
    "flags": "array<string>",
    "key_names": "array<string>",
    "row_id": "string",
    "physical_table": "bigint",
    "half": "string",
    "topic": "string",
    "incarnation": "string",
    "partition": "int",
    "offset": "bigint",
    "index": "int",
    "path": "string",
}


OTHER_COLUMNS: dict[str, str] = {
    "kind": "string",
    "database": "string",
    "table": "string",
    "key": "string",
    "commit_ts": "bigint",
    "position": POSITION,
    "physical_table": "bigint",
    "schema_kind": "string",
    "ddl": "string",
    "columns": "string",
    "primary_key": "array<string>",
    "resolved_ts": "bigint",
    "error_code": "string",
    "error_message": "string",
    "topic": "string",
    "incarnation": "string",
    "partition": "int",
    "offset": "bigint",
    "index": "int",
    "path": "string",
}


# `files`: which files hold a worker's changes, in a row of its own
PACKED = "book binary, hashes binary, changes binary, others binary, files string"


PLACE = ["topic", "incarnation", "partition"]


RECORD = [*PLACE, "offset"]


# what finds a row's event: its record, its number among the record's events, and a storage sink's file
ORIGIN = [*RECORD, "index", "path"]


INPUT = [*RECORD, "timestamp", "key", "value", "headers", "path", "size"]
