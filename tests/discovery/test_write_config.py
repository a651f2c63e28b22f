"""`lakehouse init` over recordings, storage sinks and bad input; a topic is looked at in
tests/spark/pipeline/test_new_user.py.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.config.load import check, load
from lakehouse.config.yaml_reader import read_yaml
from lakehouse.demo.run import RECORDING
from lakehouse.discovery.config_text import scalar, table_text
from lakehouse.discovery.inspect import events_of
from lakehouse.discovery.survey import Survey, TableSample
from lakehouse.discovery.write_config import InitInput, init, table_files
from lakehouse.discovery.write_config import check as validated
from lakehouse.errors import ConfigError
from lakehouse.events import RowChange
from lakehouse.sources.kafka_produce import produce
from lakehouse.sources.recording import read_recording, write_recording
from tests.discovery.test_doctor import debezium
from tests.formats.canal.test_shown_zone import flat, printed
from tests.support.debezium_records import message, row
from tests.support.open_feed import OpenFeed
from tests.support.paths import DATA


def look(folder: Path, said: list[str] | None = None, **given: Any) -> list[dict[str, str]]:
    options = {name: given.pop(name) for name in ("format", "name") if name in given}
    return init(folder, InitInput(**given), (said if said is not None else []).append, **options)


def answer(source: Path) -> list[str]:
    """Answer each question by what stands below it; the lines that this made."""
    text, lines = "", []
    for line in source.read_text().splitlines():
        if (answer := re.fullmatch(r"# ((?:  )?[a-z][\w.-]*:( .*)?)", line)) and line[2:6] != "auto":
            lines.append(line := answer[1])
        text += f"{line}\n"
    source.write_text(text)
    return lines


@pytest.mark.parametrize(
    "path",
    [
        "canal/inventory.jsonl.gz",
        "canal-protobuf/inventory.jsonl.gz",
        "debezium/inventory/noschema.jsonl.gz",
        "dts/inventory/stream.jsonl.gz",
        "ticdc-open/classic-v9.0.0-beta.1/keys.batch1.jsonl.gz",
        "ticdc-canal-json/classic-v9.0.0-beta.1/keys.plain.jsonl.gz",
        "ticdc-open/classic-v9.0.0-beta.1/big.handle-key-only.lz4.jsonl.gz",
    ],
)
def test_what_is_written_is_valid_and_has_a_yaml_for_each_table_of_the_recording(
    path: str, tmp_path: Path
) -> None:
    done = look(tmp_path, recording=DATA / path)

    assert {entry["state"] for entry in done} == {"written"}
    config = load(tmp_path)
    (name, source), *others = config.sources.items()
    events = [
        event for _, event in events_of(read_recording(DATA / path), source.format, source.decoder_options())
    ]
    assert others == []
    assert {pair for table in config.tables.values() for pair in table.source_tables} == {
        (event.database, event.table) for event in events if isinstance(event, RowChange)
    }
    assert {table.source for table in config.tables.values()} == {name}
    answer(tmp_path / f"sources/{name}.yml")
    assert load(tmp_path).sources[name].format == source.format


@pytest.mark.parametrize("name", ["mein shop", "../shop", "shop`x", ""])
def test_a_name_that_is_no_word_is_refused_with_one_that_is(name: str, tmp_path: Path) -> None:
    """Commands that are to be copied from the output name the source."""
    with pytest.raises(ConfigError, match=r"^--name .*: expected letters.* alone; write --name \w+$"):
        look(tmp_path, recording=DATA / "canal/inventory.jsonl.gz", name=name)

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("tree", sorted((DATA / "storage").iterdir()), ids=lambda tree: tree.name)
def test_the_folder_of_a_storage_sink_is_described_as_its_files_show_it(tree: Path, tmp_path: Path) -> None:
    look(tmp_path, storage=str(tree / "data"), name="sink")

    source = load(tmp_path).sources["sink"]
    said = (tmp_path / "sources/sink.yml").read_text()
    assert source.format == "ticdc-storage"
    assert source.decoder_options()["protocol"] == ("csv" if tree.name.startswith("csv") else "canal-json")
    assert "# QUESTION: In which zone does the producer print TIMESTAMP?" in said


def test_the_demo_is_described_in_full(tmp_path: Path) -> None:
    said: list[str] = []
    look(tmp_path, said, recording=Path("lakehouse/demo/demo.jsonl"), name="shop")

    assert (tmp_path / "sources/shop.yml").read_text() == (
        "# Written by lakehouse init from lakehouse/demo/demo.jsonl: all 58 messages, 3 tables, 27 "
        "DDLs, 18 watermarks.\n"
        "# Every option: `lakehouse schema json source`. What no message shows is asked for below.\n"
        "format: ticdc-open\n"
        "recording: lakehouse/demo/demo.jsonl\n"
        "# QUESTION: In which zone does the producer print TIMESTAMP? No message says it; without it, "
        "UTC is assumed. It\n"
        "# matters for shop.orders.placed_at.\n"
        "# time_zone: UTC\n"
        "# auto: gold holds every table it meets, as its YAML says; configured: only those with a "
        "file in ../tables\n"
        "tables: auto\n"
    )
    assert said[-1].startswith(
        f"next: answer the questions in {tmp_path}/sources/shop.yml, then lakehouse validate {tmp_path}"
    )


def test_tables_without_a_beginning_lead_to_their_snapshot(tmp_path: Path) -> None:
    feed, said = OpenFeed(), list[str]()
    feed.ddl(1, "new", "CREATE TABLE new (id INT PRIMARY KEY)")
    feed.ddl(1, "old", "RENAME TABLE old TO moved")
    for table in ("new", "moved", "older"):
        feed.row(2, table, 1)
    write_recording(feed.messages, tmp_path / "shop.jsonl")
    look(tmp_path, said, recording=tmp_path / "shop.jsonl", name="shop")

    assert said[0].startswith("tables that may have rows from before the feed: shop.older (neither a CREATE")
    assert "`lakehouse snapshot shop`" in said[0]


def test_nothing_is_overwritten_and_a_second_look_adds_only_what_is_missing(tmp_path: Path) -> None:
    look(tmp_path, recording=DATA / "canal/inventory.jsonl.gz", name="a")
    (tmp_path / "sources/a.yml").write_text("format: canal\n")
    (tmp_path / "tables/inventory.orders.yml").unlink()

    done = {
        Path(entry["file"]).name: entry["state"]
        for entry in look(tmp_path, recording=DATA / "canal/inventory.jsonl.gz", name="a")
    }

    assert (tmp_path / "sources/a.yml").read_text() == "format: canal\n"
    assert {name for name, state in done.items() if state == "written"} == {"inventory.orders.yml"}
    assert done["a.yml"] == "kept: it was there already"


def test_a_warning_tells_what_the_producer_leaves_out(tmp_path: Path) -> None:
    said: list[str] = []
    look(
        tmp_path,
        said,
        recording=DATA / "ticdc-canal-json/classic-v9.0.0-beta.1/big.claim-check.none.jsonl.gz",
        name="big",
    )

    assert any(line.startswith("problem: claim check: 6 messages name claim-check files") for line in said)
    assert (
        "# QUESTION: Which folder holds the claim-check files? 6 messages name one"
        in (tmp_path / "sources/big.yml").read_text()
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"recording": Path("no/such")}, "no/such: expected a recording (a file of JSON lines), found none"),
        ({"storage": "no/such"}, "no/such: expected a folder, found none; name the sink's root"),
        (
            {"storage": "s3a://bucket/x"},
            (
                "s3a://bucket/x: expected a folder, found none; init reads local folders; copy some of "
                "its files"
            ),
        ),
        (
            {"storage": "docs"},
            (
                "docs: expected the files of a TiCDC storage sink, found none that can be read; name the "
                "sink's root"
            ),
        ),
        (
            {"storage": "docs", "format": "canal"},
            "--format canal: a storage sink's files are ticdc-storage; leave --format out",
        ),
        (
            {"recording": Path("lakehouse/demo/demo.jsonl"), "format": "canl"},
            "--format canl: expected one of ticdc-open,",
        ),
        (
            {"recording": Path("lakehouse/demo/demo.jsonl"), "format": "canal"},
            "got others (none can be read); leave --format out",
        ),
    ],
)
def test_what_can_not_be_looked_at_is_one_sentence_and_writes_nothing(
    given: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as error:
        look(tmp_path / "configs", **given)

    assert said in str(error.value)
    assert not (tmp_path / "configs").exists()


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(names)
def test_any_name_is_the_same_after_yaml(name: str) -> None:
    document = read_yaml("x.yml", f"name: {scalar(name)}\nlist: [{scalar(name)}, b]\n".encode())

    assert document.problems == []
    assert document.data == {"name": name, "list": [name, "b"]}


@given(
    st.sets(st.tuples(names, names), min_size=1, max_size=5),
    st.lists(names, max_size=3, unique=True),
    st.booleans(),
)
def test_any_tables_get_valid_files_of_their_own_that_name_them(
    tmp_path_factory: pytest.TempPathFactory, tables: set[tuple[str, str]], columns: list[str], keyed: bool
) -> None:
    found = Survey("canal", {})
    found.tables.update(
        {
            name: TableSample(1, columns=dict.fromkeys(columns, "int"), key_names=("id",) if keyed else ())
            for name in tables
        }
    )
    folder = tmp_path_factory.mktemp("c")
    (folder / "tables").mkdir()
    (folder / "sources").mkdir()
    (folder / "sources/s.yml").write_text("format: canal\nrecording: x\ntables: auto\n")

    for file, name, table in table_files(found):
        assert not (folder / "tables" / file).exists()
        (folder / "tables" / file).write_text(table_text("s", name, table, Path(file).stem), encoding="utf-8")

    assert [str(problem) for problem in check(folder)[0]] == []
    assert {pair for table in load(folder).tables.values() for pair in table.source_tables} == tables


def test_a_secret_that_is_written_out_is_refused_and_never_shown() -> None:
    options = '  options:\n    kafka.sasl.jaas.config: \'x required username="u" password="hunter2";\'\n'
    text = f"format: canal\ntables: auto\nkafka:\n  bootstrap_servers: b:1\n  topics: [t]\n{options}"

    with pytest.raises(ConfigError) as error:
        validated({"sources/s.yml": text})

    assert str(error.value).startswith(
        "init: sources/s.yml:7:5: kafka.options.kafka.sasl.jaas.config: holds a secret"
    )
    assert "hunter2" not in str(error.value)


def test_a_table_that_another_source_has_too_gets_a_file_of_its_own(tmp_path: Path) -> None:
    look(tmp_path, recording=DATA / "canal/inventory.jsonl.gz", name="one")
    look(tmp_path, recording=DATA / "canal/inventory.jsonl.gz", name="two")
    again = look(tmp_path, recording=DATA / "canal/inventory.jsonl.gz", name="two")

    assert {entry["state"] for entry in again} == {"kept: it was there already"}
    assert [str(problem) for problem in check(tmp_path)[0]] == []
    tables = [
        (table.source, pair) for table in load(tmp_path).tables.values() for pair in table.source_tables
    ]
    names = ["customers", "order_items", "orders", "products"]
    assert sorted(tables) == [(source, ("inventory", name)) for source in ("one", "two") for name in names]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"connector": "mariadb"}, "options:\n  server: mariadb\n"),
        ({}, "# QUESTION: Is the server a MySQL or a MariaDB, and of which version? No message says it;"),
    ],
)
def test_the_server_is_written_where_messages_show_it_and_asked_for_where_not(
    tmp_path: Path, source: dict[str, str], expected: str
) -> None:
    said: list[str] = []

    look(tmp_path / "c", said, recording=debezium(tmp_path, source), format="debezium", name="shop")

    assert expected in (tmp_path / "c/sources/shop.yml").read_text()
    assert not any("rules of mysql" in line for line in said)


def test_questions_are_answered_below_the_options_that_messages_show(tmp_path: Path) -> None:
    look(tmp_path / "c", recording=debezium(tmp_path, {"connector": "mariadb"}), name="shop")

    assert "  decimal.handling.mode: precise" in answer(tmp_path / "c/sources/shop.yml")
    options = load(tmp_path / "c").sources["shop"].decoder_options()
    assert (options["server"], options["decimal_handling_mode"]) == ("mariadb", "precise")


@pytest.mark.parametrize("format", ["ticdc-open", "debezium"])
def test_empty_partitions_are_asked_about_where_the_watermark_waits_for_each(
    broker: Any, topic: str, tmp_path: Path, format: str
) -> None:
    recording = RECORDING if format == "ticdc-open" else debezium(tmp_path, {"connector": "mariadb"})
    produce(recording, broker.bootstrap, topic, partitions=4)

    look(tmp_path / "c", topic=topic, servers=broker.bootstrap, name="shop")

    asked = "  partitions: 1" in answer(tmp_path / "c/sources/shop.yml")
    assert (load(tmp_path / "c").sources["shop"].format, asked) == (format, format == "ticdc-open")


def test_a_zone_that_rows_show_is_written_and_not_asked_for(tmp_path: Path) -> None:
    sent = [flat(number, printed(number, 8 * 3600)) for number in range(5)]
    write_recording(sent, tmp_path / "r.jsonl")

    look(tmp_path / "c", recording=tmp_path / "r.jsonl", name="shop")

    text = (tmp_path / "c/sources/shop.yml").read_text()
    assert '\ntime_zone: "+08:00"\n' in text
    assert "In which zone" not in text
    assert load(tmp_path / "c").sources["shop"].time_zone == "+08:00"


@pytest.mark.parametrize(
    ("transaction", "op", "is_eventual"), [(None, "c", True), ("g:1", "c", False), (None, "r", False)]
)
def test_a_feed_whose_rows_name_no_transaction_has_no_watermark_to_wait_for(
    tmp_path: Path, transaction: str | None, op: str, is_eventual: bool
) -> None:
    named = None if transaction is None else {"id": transaction, "total_order": 1}
    write_recording(
        [message(row(op, None, {"id": 1}) | {"transaction": named}, {"id": 1})], tmp_path / "r.jsonl"
    )

    look(tmp_path / "c", recording=tmp_path / "r.jsonl", format="debezium", name="shop")

    text = (tmp_path / "c/sources/shop.yml").read_text()
    assert ("\nconsistency: eventual\n" in text) == is_eventual
    assert check(tmp_path / "c")[0] == []
