"""The storage sink's files as events: recorded trees against their truth, rows in every setting, garbage."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import DecodeError
from lakehouse.events import DeadLetter, Event, Message, RowChange, SchemaChange, Watermark
from lakehouse.formats.ticdc.storage import decode
from lakehouse.formats.ticdc.storage_csv import Dialect
from lakehouse.sources.storage_tree import read_tree
from tests.support.paths import DATA
from tests.support.storage_encoder import Value, encode_record

TREES = sorted(path.parent for path in (DATA / "storage").glob("*/expected.json"))
SCHEMA: dict[str, Any] = {
    "Table": "t",
    "Schema": "d",
    "TableVersion": 400,
    "Query": "",
    "Type": 0,
    "TableColumns": [
        {
            "ColumnName": "id",
            "ColumnType": "BIGINT UNSIGNED",
            "ColumnPrecision": "20",
            "ColumnNullable": "false",
            "ColumnIsPk": "true",
        },
        {"ColumnName": "text", "ColumnType": "VARCHAR", "ColumnPrecision": "40"},
        {"ColumnName": "blob", "ColumnType": "BLOB", "ColumnPrecision": "65535"},
        {"ColumnName": "price", "ColumnType": "DECIMAL", "ColumnPrecision": "10", "ColumnScale": "2"},
        {"ColumnName": "rate", "ColumnType": "DOUBLE", "ColumnPrecision": "22"},
        {"ColumnName": "at", "ColumnType": "TIMESTAMP", "ColumnScale": "3"},
    ],
}
NAMES = ["id", "text", "blob", "price", "rate", "at"]
PATH = "d/t/400/2026-11-21/CDC000003.csv"


def events_of(message: Message, options: dict[str, str]) -> list[Event]:
    """All events; a file that is none is one dead letter."""
    try:
        return list(decode(message, options))
    except DecodeError as error:
        return [DeadLetter(error.code, str(error), 0)]


def file_message(
    data: bytes, path: str = PATH, schema: dict[str, Any] | None = None, **headers: bytes
) -> Message:
    joined = {"schema": json.dumps(schema or SCHEMA).encode(), **headers}
    return Message("storage", 0, 0, None, data, tuple(joined.items()), path=path)


# Recorded trees


def canonical(cell: list[Any], zone: str) -> set[Any]:
    """The values that are right for a cell of the truth: [type, text, number of an ENUM or SET?]; the
    recordings' zone is UTC.
    """
    assert zone == "UTC"
    type_, text, *number = cell
    word = type_.partition("(")[0].split()[0]
    if text is None:
        return {None}
    if word in ("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"):
        return {int(text)}
    if word in ("float", "double"):
        return {float(text)}
    if word in ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"):
        return {base64.b64encode(bytes.fromhex(text.removeprefix("0x"))).decode()}
    return {text + "Z" if word == "timestamp" else text, *number}


def is_image(image: dict[str, Any] | None, cells: dict[str, list[Any]] | None, zone: str) -> bool:
    if image is None or cells is None:
        return image is None and cells is None
    return image.keys() == cells.keys() and all(
        image[name] in canonical(cell, zone) for name, cell in cells.items()
    )


def is_change(event: RowChange, truth: dict[str, Any], expected: dict[str, Any]) -> bool:
    zone = expected["options"]["time_zone"]
    without_old = truth["op"] == "update" and expected["old_values"] == "none"
    return (
        (event.database, event.table, event.op) == (truth["schema"], truth["table"], truth["op"])
        and event.key_names == tuple(sorted(truth["pk"]))
        and (event.commit_ts in (truth["commit_ts"], None) or event.position[1] != event.commit_ts)
        and is_image(event.after, truth.get("after"), zone)
        and is_image(event.before, None if without_old else truth.get("before"), zone)
    )


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_a_recorded_tree_gives_the_changes_of_its_truth_in_order(tree: Path) -> None:
    expected = json.loads((tree / "expected.json").read_text())
    events = [
        event
        for message in read_tree(tree / "data", expected["options"])
        for event in events_of(message, expected["options"])
    ]
    changes = {  # rows of tables without a key stand for themselves
        (event.database, event.table, event.key or number, event.position): event
        for number, event in enumerate(events)
        if isinstance(event, RowChange)
    }
    in_order = sorted(changes.values(), key=lambda event: event.position)
    truth = [event for event in expected["events"] if event["kind"] == "row"]

    for table in {(event["schema"], event["table"]) for event in truth}:
        rows = [event for event in in_order if (event.database, event.table) == table]
        wanted = [event for event in truth if (event["schema"], event["table"]) == table]
        assert len(rows) == len(wanted)
        for moment in sorted({event["commit_ts"] for event in wanted}):
            together = [event for event in wanted if event["commit_ts"] == moment]
            found, rows = rows[: len(together)], rows[len(together) :]
            assert all(any(is_change(event, one, expected) for event in found) for one in together), (
                table,
                moment,
            )

    assert not [event for event in events if isinstance(event, DeadLetter)]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_a_recorded_tree_gives_its_statements_and_its_checkpoint(tree: Path) -> None:
    expected = json.loads((tree / "expected.json").read_text())
    events = [
        event
        for message in read_tree(tree / "data", expected["options"])
        for event in events_of(message, expected["options"])
    ]
    statements = {
        (event.database, event.table, event.commit_ts, event.ddl)
        for event in events
        if isinstance(event, SchemaChange)
    }
    truth = {
        (event["schema"], event["table"], event["commit_ts"], event["query"])
        for event in expected["events"]
        if event["kind"] == "ddl"
    }
    if (tree / "data" / "shop").is_dir() and not (tree / "data" / "shop" / "meta").is_dir():
        truth = {
            statement for statement in truth if statement[1]
        }  # the first layout has no place for a database's DDL
    ordered = {"csv": "include-commit-ts", "canal-json": "enable-tidb-extension"}[
        expected["options"]["protocol"]
    ]
    progress = [event.resolved_ts for event in events if isinstance(event, Watermark)]

    assert statements == truth
    assert progress == ([expected["checkpoint_ts"]] if expected["options"].get(ordered) == "true" else [])


# Rows in every setting


CHARACTERS = st.characters(codec="utf-8", exclude_characters="|")
IMAGES = st.fixed_dictionaries(
    {
        "id": st.integers(0, 2**64 - 1),
        "text": st.none() | st.text(CHARACTERS, max_size=8) | st.sampled_from(["\\N", '"', "a\r\nb", "\\"]),
        "blob": st.none() | st.binary(max_size=8),
        "price": st.none() | st.decimals(-1000, 1000, places=2).map(str),
        "rate": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "at": st.none() | st.just("2024-03-01 08:00:00.123"),
    }
)
CHANGES = st.one_of(
    st.tuples(st.just("insert"), st.none(), IMAGES),
    st.tuples(st.just("delete"), IMAGES, st.none()),
    st.tuples(st.just("update"), IMAGES, IMAGES).map(
        lambda change: (change[0], change[1], {**change[2], "id": change[1]["id"]})
    ),
)
FLAGS = ("include-commit-ts", "output-old-value", "output-field-header", "output-handle-key")
SETTINGS = st.fixed_dictionaries(
    {
        **{flag: st.sampled_from(["true", "false"]) for flag in FLAGS},
        "binary-encoding-method": st.sampled_from(["base64", "hex"]),
        "delimiter": st.sampled_from([",", "|", "||", "\t", ";-;"]),
        "quote": st.sampled_from(['"', "'"]),
        "null": st.sampled_from(["\\N", "", "NULL"]),
        "terminator": st.sampled_from(["\r\n", "\n"]),
        "protocol": st.just("csv"),
        "time_zone": st.just("Asia/Shanghai"),
    }
)


def encode_file(changes: list[tuple[str, Any, Any]], options: dict[str, str]) -> bytes:
    dialect = Dialect(*(options[name].encode() for name in ("delimiter", "quote", "null", "terminator")))
    records: list[list[Value]] = []
    for moment, (op, before, after) in enumerate(changes):
        if op == "update" and options["output-old-value"] == "true":
            records += [
                encode_row("D", moment, True, before, options),
                encode_row("I", moment, True, after, options),
            ]
        else:
            image = before if after is None else after
            records.append(
                encode_row(
                    {"insert": "I", "delete": "D", "update": "U"}[op], moment, op == "update", image, options
                )
            )
    return header(options, dialect) + b"".join(encode_record(record, dialect) for record in records)


def encode_row(
    op: str, moment: int, is_update: bool, image: dict[str, Any], options: dict[str, str]
) -> list[Value]:
    has = {flag: options[flag] == "true" for flag in FLAGS}
    row: list[Value] = [op, "t", "d"]
    row += [1000 + moment] if has["include-commit-ts"] else []
    row += [is_update] if has["output-old-value"] else []
    row += ["handle"] if has["output-handle-key"] and not has["output-field-header"] else []
    return row + [spell(value, options["binary-encoding-method"]) for value in map(image.__getitem__, NAMES)]


def spell(value: Any, binary: str) -> Value:
    if isinstance(value, bytes):
        return value.hex() if binary == "hex" else base64.b64encode(value).decode()
    return value


def header(options: dict[str, str], dialect: Dialect) -> bytes:
    if options["output-field-header"] != "true":
        return b""
    meta = ["operation", "table", "schema"]
    meta += ["commit-ts"] if options["include-commit-ts"] == "true" else []
    meta += ["is-update"] if options["output-old-value"] == "true" else []
    return (
        dialect.delimiter.join(
            [*(f"ticdc-meta${name}".encode() for name in meta), *(name.encode() for name in NAMES)]
        )
        + dialect.terminator
    )


def silver(image: dict[str, Any] | None) -> dict[str, Any] | None:
    """An image as silver has it."""
    if image is None:
        return None
    blob, at = image["blob"], image["at"]
    return {
        **image,
        "blob": None if blob is None else base64.b64encode(blob).decode(),
        "at": at and "2024-03-01 00:00:00.123Z",
    }


@settings(max_examples=200)
@given(st.lists(CHANGES, min_size=1, max_size=5), SETTINGS)
def test_changes_written_in_any_setting_are_read_back(
    changes: list[tuple[str, Any, Any]], options: dict[str, str]
) -> None:
    events = events_of(file_message(encode_file(changes, options)), options)

    rows = [event for event in events if isinstance(event, RowChange)]
    assert [(row.op, row.after) for row in rows] == [(op, silver(after)) for op, _, after in changes]
    kept = [
        before if op == "delete" or options["output-old-value"] == "true" else None
        for op, before, _ in changes
    ]
    assert [row.before for row in rows] == [silver(before) for before in kept]
    assert [row.position for row in rows] == sorted(row.position for row in rows)
    assert len(rows) == len(events)


@settings(max_examples=100)
@given(st.lists(CHANGES, min_size=1, max_size=3), SETTINGS, st.data())
def test_garbage_is_events_or_a_decode_error(
    changes: list[tuple[str, Any, Any]], options: dict[str, str], draw: st.DataObject
) -> None:
    data = bytearray(encode_file(changes, options))
    cut = draw.draw(st.integers(0, len(data)))
    data[draw.draw(st.integers(0, len(data) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    schema = bytearray(json.dumps(SCHEMA).encode())
    schema[draw.draw(st.integers(0, len(schema) - 1))] ^= 1 << draw.draw(st.integers(0, 7))

    for garbage in (bytes(data), bytes(data[:cut])):
        damaged = Message("storage", 0, 0, None, garbage, (("schema", bytes(schema)),), path=PATH)
        for event in events_of(file_message(garbage), options) + events_of(damaged, options):
            assert isinstance(event, RowChange | DeadLetter)


def test_a_file_whose_rows_are_not_of_its_schema_and_settings_is_refused_whole() -> None:
    data = b'"I","t","d",7,1,"a","",1.00,1.5,\\N\r\n'

    [event] = events_of(file_message(data), {"protocol": "csv"})

    assert isinstance(event, DeadLetter)
    assert (event.code, event.database, event.table) == ("columns", "d", "t")
    assert "expected 9 fields, as its schema file and the settings say, got 10" in event.message


def test_a_file_without_its_schema_file_is_a_dead_letter_of_the_table_that_its_path_names() -> None:
    [event] = events_of(
        Message("storage", 0, 0, None, b"", path="d/t/400/CDC000001.csv"), {"protocol": "csv"}
    )

    assert event == DeadLetter(
        "schema", "data file: expected its schema file beside it, got none", 0, "d", "t"
    )


def test_a_row_that_cannot_be_read_is_a_dead_letter_of_its_number() -> None:
    rows = [b'"I","t","d",7,%s,"a","","1.00",1.5,\\N\r\n' % key for key in (b"1", b"one", b"\\N", b"4")]
    rows[3] = rows[3].replace(b'"t"', b'"other"')
    rows += [
        rows[0].replace(b'"I"', b'"X"'),
        rows[0].replace(b"1.00", b"1,00"),
        rows[0].replace(b'""', b'"!QUI="'),
        rows[0],
    ]

    events = events_of(file_message(b"".join(rows)), {"protocol": "csv", "include-commit-ts": "true"})

    assert [(event.index, event.code) for event in events if isinstance(event, DeadLetter)] == [
        (1, "value"),
        (2, "key"),
        (3, "table"),
        (4, "op"),
        (5, "value"),
        (6, "value"),
    ]
    assert [event.index for event in events if isinstance(event, RowChange)] == [0, 7]
    assert {event.table for event in events if not isinstance(event, Watermark)} == {"t"}


def test_an_update_whose_key_changes_is_a_delete_and_an_insert() -> None:
    row = b'"%s","t","d",7,true,%s,"a","","1.00",1.5,\\N\r\n'
    options = {"protocol": "csv", "include-commit-ts": "true", "output-old-value": "true"}

    deleted, inserted = events_of(file_message(row % (b"D", b"1") + row % (b"I", b"2")), options)

    assert isinstance(deleted, RowChange)
    assert isinstance(inserted, RowChange)
    assert [deleted.op, deleted.key, deleted.position] == ["delete", (1,), (0, 7, 0, 0, 0, 0)]
    assert [inserted.op, inserted.key, inserted.position] == ["insert", (2,), (0, 7, 1, 0, 0, 0)]


@pytest.mark.parametrize(
    "halves",
    [[(b"D", 7)], [(b"I", 7)], [(b"D", 7), (b"D", 7)], [(b"D", 7), (b"I", 8)], [(b"D", 7), (b"U", 7)]],
)
def test_half_an_update_is_a_dead_letter(halves: list[tuple[bytes, int]]) -> None:
    data = b"".join(b'"%s","t","d",%d,true,1,"a","","1.00",1.5,\\N\r\n' % half for half in halves)
    options = {"protocol": "csv", "include-commit-ts": "true", "output-old-value": "true"}

    events = events_of(file_message(data), options)

    assert isinstance(events[0], DeadLetter)
    assert events[0].code == "pair"


def test_without_commit_ts_files_and_rows_are_the_order() -> None:
    data = b'"D","t","d",1,"a","","1.00",1.5,\\N\r\n"I","t","d",1,"b","","1.00",1.5,\\N\r\n'
    options = {"protocol": "csv"}
    schema = Message(
        "storage", 0, 0, None, json.dumps(SCHEMA).encode(), path="d/t/meta/schema_400_0000000001.json"
    )
    metadata = Message("storage", 0, 0, None, b'{"checkpoint-ts":500}', path="metadata")

    deleted, inserted = events_of(file_message(data), options)
    [record] = events_of(schema, options)

    assert isinstance(deleted, RowChange)
    assert isinstance(inserted, RowChange)
    assert isinstance(record, SchemaChange)
    assert [deleted.position, inserted.position] == [(0, 400, 20261121, 3, 1, 0), (0, 400, 20261121, 3, 3, 0)]
    first = events_of(file_message(data, "d/t/400/CDC000001.csv"), options)[0]
    assert isinstance(first, RowChange)
    assert record.position < first.position
    assert events_of(metadata, options) == []


def test_several_dispatchers_without_commit_ts_are_refused() -> None:
    message = file_message(b"", "d/t/400/CDC_77_000001.csv", dispatchers=b"2")

    [event] = events_of(message, {"protocol": "csv"})

    assert event == DeadLetter(
        "dispatchers",
        "data file: expected one dispatcher in its folder, got several, which only commit ts could order",
        0,
        "d",
        "t",
    )


def test_defaults_that_ticdc_fills_in_itself_are_text() -> None:
    """Before 6.5.9, 7.1.5 and 7.5.2: of a row from before ADD COLUMN, that is deleted."""
    columns = [{"ColumnName": "id", "ColumnType": "INT", "ColumnIsPk": "true"}] + [
        {"ColumnName": name, "ColumnType": kind} for name, kind in (("n", "INT"), ("b", "BIT"), ("c", "BIT"))
    ]
    data = b'"D","t","d",1,"5","\x01\x05",5\r\n'

    (event,) = events_of(file_message(data, schema={**SCHEMA, "TableColumns": columns}), {"protocol": "csv"})

    assert isinstance(event, RowChange)
    assert event.before == {"id": 1, "n": 5, "b": 261, "c": 5}


def test_a_binary_default_that_ticdc_fills_in_itself_is_no_bytes_in_silence() -> None:
    """Releases before 6.5.9, 7.1.5 and 7.5.2 write it as it is: what is base64 by chance is the old image of
    a row that is deleted by its key, what is none is a dead letter.
    """
    columns = [{"ColumnName": "id", "ColumnType": "INT", "ColumnIsPk": "true"}]
    columns += [{"ColumnName": "b", "ColumnType": "VARBINARY"}]
    schema = {**SCHEMA, "TableColumns": columns}
    data = b'"D","t","d",1,"abcd"\r\n"D","t","d",2,"none"\r\n"D","t","d",3,"no base64"\r\n'

    *deleted, letter = events_of(file_message(data, schema=schema), {"protocol": "csv"})

    assert [(one.op, one.key) for one in deleted if isinstance(one, RowChange)] == [
        ("delete", (1,)),
        ("delete", (2,)),
    ]
    assert isinstance(letter, DeadLetter) and (letter.code, letter.table) == ("value", "t")


def test_a_binary_default_that_its_schema_file_tells_is_read() -> None:
    columns = [{"ColumnName": "id", "ColumnType": "INT", "ColumnIsPk": "true"}]
    columns += [{"ColumnName": "b", "ColumnType": "VARBINARY", "ColumnDefault": "no base64"}]
    data = b'"D","t","d",1,"no base64"\r\n"D","t","d",2,"bm8="\r\n"D","t","d",3,"none at all"\r\n'

    *deleted, letter = events_of(
        file_message(data, schema={**SCHEMA, "TableColumns": columns}), {"protocol": "csv"}
    )

    assert [one.before for one in deleted if isinstance(one, RowChange)] == [
        {"id": 1, "b": base64.b64encode(b"no base64").decode()},
        {"id": 2, "b": "bm8="},
    ]
    assert isinstance(letter, DeadLetter) and letter.code == "value"


ID, TEXT = SCHEMA["TableColumns"][:2]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('"I","t","d",500,"a",1\r\n"D","t","d",510,1\r\n', [{"id": 1}]),
        ('"D","t","d",510,1\r\n"D","t","d",520,2\r\n', [{"id": 1}, {"id": 2}]),
        ('"D","t","d","a",1\r\n', "columns"),  # a row of all columns, without a commit ts
        ('"D","t","d",300,1\r\n', "columns"),  # one that is older than the folder: no commit ts
        ('"I","t","d",500,"a",1\r\n"U","t","d",510,1\r\n', "columns"),
    ],
)
def test_a_delete_may_have_the_key_alone(data: str, expected: Any) -> None:
    """TiCDC 6.5.0 to 6.5.2, 6.6, 7.0 and 7.1.0 with enable-old-value = false."""
    options = {"protocol": "csv", "include-commit-ts": "true"}

    events = events_of(file_message(data.encode(), schema={**SCHEMA, "TableColumns": [TEXT, ID]}), options)

    deletes = [event for event in events if isinstance(event, RowChange) and event.op == "delete"]
    letters = [event.code for event in events if isinstance(event, DeadLetter)]
    if isinstance(expected, str):
        assert (letters, deletes) == ([expected], [])
    else:
        assert letters == []
        assert [(event.key, event.before, event.flags) for event in deletes] == [
            ((image["id"],), image, ("partial_before",)) for image in expected
        ]


@pytest.mark.parametrize(
    ("null", "quote", "nullable", "value"),
    [
        ("", "", "false", ""),
        ("", "", "true", None),
        ("NULL", "", "false", "NULL"),
        ("\\N", "", "false", None),
        ("", '"', "false", None),
    ],
)
def test_a_column_that_takes_no_null_holds_the_text_that_is_written_alike(
    null: str, quote: str, nullable: str, value: str | None
) -> None:
    columns = [ID, {**TEXT, "ColumnNullable": nullable}]
    options = {"protocol": "csv", "null": null, "quote": quote}
    data = f"I,t,d,1,{null}\r\n" if not quote else f'"I","t","d",1,{null}\r\n'

    (event,) = events_of(file_message(data.encode(), schema={**SCHEMA, "TableColumns": columns}), options)

    assert isinstance(event, RowChange)
    assert event.after == {"id": 1, "text": value}


def test_virtual_columns_are_in_the_schema_and_in_no_row() -> None:
    data = b'"I","t","d",1,"","1.00",1.5,\\N\r\n'

    joined = events_of(file_message(data, virtual=b'["text"]'), {"protocol": "csv"})
    configured = events_of(file_message(data), {"protocol": "csv", "virtual-columns": "d.x.text, d.t.text"})

    assert joined == configured
    assert isinstance(joined[0], RowChange)
    assert joined[0].after == {"id": 1, "blob": "", "price": "1.00", "rate": 1.5, "at": None}


def test_a_header_tells_which_columns_were_sent_whatever_is_in_their_names() -> None:
    names = ["id", "a,b", 'c"', "vir\r\ntual", "d"]
    schema = {**SCHEMA, "TableColumns": [{"ColumnName": name, "ColumnType": "INT"} for name in names]}
    head = b'ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,id,a,b,c",d\r\n'

    [event] = events_of(file_message(head + b'"I","t","d",1,2,3,4\r\n', schema=schema), {"protocol": "csv"})

    assert isinstance(event, RowChange)
    assert event.after == {"id": 1, "a,b": 2, 'c"': 3, "d": 4}


def test_a_virtual_column_that_the_settings_name_is_marked_in_a_schema_record() -> None:
    """Else its table would lack a value of it in all rows."""
    message = Message("storage", 0, 0, None, json.dumps(SCHEMA).encode(), path="d/t/meta/schema_400_1.json")

    [record] = events_of(message, {"virtual-columns": "d.x.blob, d.t.text"})

    assert isinstance(record, SchemaChange)
    assert [column["name"] for column in record.columns or [] if "generated" in column] == ["text"]


@pytest.mark.parametrize("rows_have_it", [False, True])
def test_a_header_may_name_virtual_columns_that_no_row_has(rows_have_it: bool) -> None:
    names = ["id", "v", "n"]
    schema = {**SCHEMA, "TableColumns": [{"ColumnName": name, "ColumnType": "INT"} for name in names]}
    head = b"ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,id,v,n\r\n"
    row = b'"I","t","d",1,5,2\r\n' if rows_have_it else b'"I","t","d",1,2\r\n'

    [event] = events_of(file_message(head + row, schema=schema, virtual=b'["v"]'), {"protocol": "csv"})

    assert isinstance(event, RowChange)
    assert event.after == {"id": 1, "n": 2} | ({"v": 5} if rows_have_it else {})


def test_a_header_leaves_out_the_handle_key_that_rows_have() -> None:
    """encodeHeader of the classic architecture 26.3; the new one writes the handle key nowhere."""
    schema = {**SCHEMA, "TableColumns": [{"ColumnName": "id", "ColumnType": "INT"}]}
    head = b"ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,id\r\n"
    options = {"protocol": "csv", "output-handle-key": "true"}

    [with_it], [without] = (
        events_of(file_message(head + row, schema=schema), options)
        for row in (b'"I","t","d","7",1\r\n', b'"I","t","d",1\r\n')
    )

    assert isinstance(with_it, RowChange)
    assert with_it.after == {"id": 1}
    assert with_it == without


@pytest.mark.parametrize("head", [b"", b"ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,a,v,b\r\n"])
@pytest.mark.parametrize("quote", ['"', ""])
def test_a_handle_is_not_read_as_the_first_column_where_a_virtual_one_is_unknown(
    head: bytes, quote: str
) -> None:
    """The classic architecture writes a handle, the new one none for the same setting; no row has `v`."""
    columns = [{"ColumnName": name, "ColumnType": "VARCHAR"} for name in ("a", "v", "b")]
    options = {"protocol": "csv", "output-handle-key": "true", "quote": quote}

    def found(*values: str) -> list[Event]:
        row = ",".join(f"{quote}{value}{quote}" for value in ("I", "t", "d", *values)).encode() + b"\r\n"
        return events_of(file_message(head + row, schema={**SCHEMA, "TableColumns": columns}), options)

    for handle in ("17", "-3", "{x}"):
        [refused] = found(handle, "x", "y")
        assert isinstance(refused, DeadLetter) and refused.code == "columns"
        assert "say output-handle-key: false" in refused.message
    [read] = found("x", "y", "z")
    assert isinstance(read, RowChange) and read.after == {"a": "x", "v": "y", "b": "z"}
    [read] = events_of(
        file_message(b'"I","t","d","17","x","y"\r\n', schema={**SCHEMA, "TableColumns": columns}),
        {"protocol": "csv"},
    )
    assert isinstance(read, RowChange) and read.after == {"a": "17", "v": "x", "b": "y"}


def test_a_schema_file_is_a_statement_or_a_record_with_types_as_sql_has_them() -> None:
    columns: list[tuple[str, dict[str, Any]]] = [
        ("tinyint(1)", {"ColumnType": "TINYINT", "ColumnPrecision": "1"}),
        ("int unsigned", {"ColumnType": "INT UNSIGNED", "ColumnPrecision": "10"}),
        ("year", {"ColumnType": "YEAR UNSIGNED", "ColumnPrecision": "4"}),
        ("bit(8)", {"ColumnType": "BIT UNSIGNED", "ColumnPrecision": "8"}),
        ("decimal(10,0) unsigned", {"ColumnType": "DECIMAL UNSIGNED", "ColumnPrecision": "10"}),
        ("float", {"ColumnType": "FLOAT", "ColumnPrecision": "12"}),
        ("datetime(6)", {"ColumnType": "DATETIME", "ColumnScale": "6"}),
        ("mediumtext", {"ColumnType": "MEDIUMTEXT", "ColumnPrecision": "16777215"}),
        ("enum('a','it''s')", {"ColumnType": "ENUM", "ColumnElems": ["a", "it's"]}),
        ("set", {"ColumnType": "SET", "ColumnLength": "3"}),
    ]
    content = {**SCHEMA, "TableColumns": [{"ColumnName": text, **column} for text, column in columns]}
    path = "d/t/meta/schema_400_0000000001.json"

    [record] = events_of(
        Message("s", 0, 0, None, json.dumps(content).encode(), path=path),
        {"include-commit-ts": "true", "protocol": "csv"},
    )
    [change] = events_of(
        Message("s", 0, 0, None, json.dumps({**content, "Query": "TRUNCATE TABLE `t`"}).encode(), path=path),
        {},
    )

    assert isinstance(record, SchemaChange)
    assert isinstance(change, SchemaChange)
    assert (record.kind, record.ddl, record.commit_ts, record.position) == (
        "schema",
        None,
        400,
        (0, 400, 2, 0, 0, 0),
    )
    assert [column["type"] for column in record.columns or []] == [text for text, _ in columns]
    assert (change.kind, change.ddl, change.primary_key) == ("ddl", "TRUNCATE TABLE `t`", ())


@pytest.mark.parametrize("terminator", ["\r\n", "\n", "#", "end"])
def test_a_file_of_canal_json_is_read_line_by_line(terminator: str) -> None:
    line = {
        "id": 0,
        "database": "d",
        "table": "t",
        "pkNames": ["id"],
        "isDdl": False,
        "type": "INSERT",
        "es": 1,
        "ts": 2,
        "sql": "",
        "sqlType": {"id": 4, "text": 12},
        "mysqlType": {"id": "int", "text": "varchar"},
        "old": None,
        "data": [{"id": "1", "text": f'a"{terminator}\\'}],
        "_tidb": {"commitTs": 450},
    }
    whole = json.dumps(line).encode() + terminator.encode()
    message = file_message(
        whole + b"{}" + terminator.encode() + whole + whole[:40], "d/t/400/77/CDC000001.json"
    )

    first, broken, second, cut = events_of(
        message, {"enable-tidb-extension": "true", "terminator": terminator}
    )

    assert isinstance(first, RowChange)
    assert isinstance(second, RowChange)
    assert (first.after, first.position, first.physical_table) == (
        {"id": 1, "text": f'a"{terminator}\\'},
        (0, 450, 1, 0, 0, 0),
        77,
    )
    assert (second.after, second.index) == (first.after, 2)
    assert [(event.index, event.code) for event in (broken, cut) if isinstance(event, DeadLetter)] == [
        (1, "shape"),
        (3, "truncated"),
    ]
