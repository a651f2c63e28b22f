"""The JSON of `inspect`, member for member."""

import json
import subprocess
import sys
from pathlib import Path

from lakehouse.cli.output import event_line
from lakehouse.discovery.inspect import event_json, events_json, inspect_messages
from lakehouse.events import DeadLetter, Message, RowChange, SchemaChange, Watermark
from lakehouse.sources.recording import read_recording
from tests.support.paths import DATA

MESSAGE = Message("topic", 2, 7, None, None)
ORIGIN = {"topic": "topic", "partition": 2, "offset": 7, "index": 1}
POSITION = (0, 5, 1, 0, 0, 0)


def test_a_change_has_the_members_of_the_contract_in_their_order() -> None:
    change = RowChange("d", "t", "insert", (1, "a"), ("id", "x"), 5, POSITION, None, {"id": 1, "x": "a"}, 1)

    assert list(event_json(MESSAGE, change).items()) == [
        ("event", "change"),
        ("database", "d"),
        ("table", "t"),
        ("op", "insert"),
        ("key", [1, "a"]),
        ("commit_ts", 5),
        ("position", list(POSITION)),
        ("before", None),
        ("after", {"id": 1, "x": "a"}),
        ("encoding", "canonical"),
        ("origin", ORIGIN),
    ]


def test_types_and_flags_are_there_where_the_change_has_some() -> None:
    change = RowChange(
        "d",
        "t",
        "delete",
        (),
        (),
        None,
        POSITION,
        {},
        None,
        1,
        types={"id": "int"},
        flags=("partial_before",),
    )

    shown = event_json(MESSAGE, change)

    assert list(shown)[-4:] == ["encoding", "types", "flags", "origin"]
    assert (shown["types"], shown["flags"]) == ({"id": "int"}, ["partial_before"])


def test_a_schema_change_shows_columns_where_it_has_some() -> None:
    ddl = event_json(MESSAGE, SchemaChange("ddl", "d", None, 5, POSITION, "CREATE DATABASE d", 1))
    record = event_json(
        MESSAGE, SchemaChange("schema", "d", "t", 5, POSITION, None, 1, columns=[{"name": "id"}])
    )

    assert list(ddl) == ["event", "kind", "database", "table", "commit_ts", "position", "ddl", "origin"]
    assert (record["columns"], record["ddl"]) == ([{"name": "id"}], None)


def test_watermarks_and_dead_letters_have_theirs() -> None:
    assert event_json(MESSAGE, Watermark(POSITION, 5, 1)) == {
        "event": "watermark",
        "position": list(POSITION),
        "resolved_ts": 5,
        "origin": ORIGIN,
    }
    assert event_json(MESSAGE, DeadLetter("json", "why", 1)) == {
        "event": "dead_letter",
        "error": {"code": "json", "message": "why"},
        "origin": ORIGIN,
    }


def test_people_see_the_beginning_of_a_dead_letters_bytes_once_and_no_terminal_is_steered_by_it() -> None:
    message = Message("topic", 2, 7, b"k", b"\x1b[2J<b>" + bytes(1000))
    letters = [DeadLetter("json", "why", 1), DeadLetter("json", "why not", 2)]

    shown = [event_line(event) for event in events_json([(message, one) for one in letters], dumps=True)]

    assert shown[0].splitlines()[:5] == [
        "topic/2@7[1]  dead letter json: why",
        "    key, 1 B",
        "        00000000  6b                                                |k|",
        "    value, the first 256 B of 1.0 kB",
        "        00000000  1b 5b 32 4a 3c 62 3e 00  00 00 00 00 00 00 00 00  |.[2J<b>.........|",
    ]
    assert (len(shown[0].splitlines()), shown[1:]) == (20, ["topic/2@7[2]  dead letter json: why not"])
    assert [list(one) for one in events_json([(message, letters[0])])] == [["event", "error", "origin"]]


def test_the_origin_of_a_file_is_its_path_and_row() -> None:
    message = Message("", 0, 7, None, None, path="d/t/CDC1.json")

    assert event_json(message, Watermark(POSITION, 5, 1))["origin"] == {
        "path": "d/t/CDC1.json",
        "row": 1,
        "index": 1,
    }


def test_claim_check_rows_are_whole_with_their_folder_and_unresolved_without() -> None:
    folder = DATA / "ticdc-open/classic-v9.0.0-beta.1"
    messages = list(read_recording(folder / "big.claim-check.none.jsonl.gz"))
    files = str(folder / "claim-check-files/big.claim-check.none")

    with_folder = list(inspect_messages(messages, "ticdc-open", {"claim_check": files}))
    without = list(inspect_messages(messages, "ticdc-open", {}))

    assert not [event for event in with_folder if event["event"] == "dead_letter"]
    letters = [event["error"] for event in without if event["event"] == "dead_letter"]
    assert {letter["code"] for letter in letters} == {"unresolved"}
    assert len(with_folder) == len(without)


def test_a_claim_check_file_outside_its_folder_is_none(tmp_path: Path) -> None:
    row = {
        "database": "d",
        "table": "t",
        "type": "INSERT",
        "pkNames": ["id"],
        "mysqlType": {"id": "int"},
        "data": [{"id": "1"}],
    }
    whole = {**row, "data": [{"id": "1", "v": "x"}], "_tidb": {"commitTs": 5}}
    (tmp_path / "own").mkdir()
    (tmp_path / "own/a.json").write_text(json.dumps(whole))
    (tmp_path / "b.json").write_text(json.dumps(whole))
    (tmp_path / "own/b.json").symlink_to(tmp_path / "b.json")
    locations = ("s3://x/a.json", "s3://x/b.json", "../b.json", "c.json")
    values = [
        json.dumps({**row, "_tidb": {"commitTs": 5, "claimCheckLocation": location}}).encode()
        for location in locations
    ]
    messages = [Message("t", 0, number, None, value) for number, value in enumerate(values)]

    events = inspect_messages(messages, "ticdc-canal-json", {"claim_check": str(tmp_path / "own")})

    assert [event["event"] for event in events] == ["change", "dead_letter", "dead_letter", "dead_letter"]


def test_a_worker_that_imports_the_formats_pays_for_none_of_them() -> None:
    code = "import sys, lakehouse.formats; print(' '.join(sys.modules))"

    modules = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )

    assert not modules & {
        "pyspark",
        "pyarrow",
        "delta",
        "sqlglot",
        "pydantic",
        "yaml",
        "typer",
        "google.protobuf",
        "cramjam",
    }
    assert {name for name in modules if name.startswith("lakehouse.formats.")} == {
        "lakehouse.formats.options",
        "lakehouse.formats.producer_settings",
        "lakehouse.formats.row",
    }
