"""The benchmark of peers, as far as it needs none of them: its feed, how it compares, measures and tells."""

import argparse
import json
import re
import struct
import sys
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bench.generate import NARROW
from bench.measure import Cost
from bench.peers import flink
from bench.peers.canal_rows import COLUMNS
from bench.peers.contestants import JVM, PEERS
from bench.peers.feed import cells_of, changes_in, messages, rows_at_end
from bench.peers.process import Failed, measured_run
from bench.peers.relocate import Renaming, relocate, relocated_class
from bench.peers.report import TITLES, Found, Result, differences, keep, kept, place_figures, read_rows
from lakehouse.events import Image, RowChange, SchemaChange
from lakehouse.formats.canal.flat_message import decode
from lakehouse.spark import session
from tests.support.paths import ROOT

FOLDER = ROOT / "bench/peers"
ROW = {"id": "7", "customer": "c", "amount": "1.50", "quantity": "3", "at": "2026-01-02 12:30:01.120000"}
PRINTED = ROW | {"amount": "1.5", "at": "2026-01-02T12:30:01.12"}


def test_the_same_seed_gives_the_same_feed() -> None:
    one, other, third = (list(messages(50, "t", seed)) for seed in (1, 1, 2))

    assert one == other
    assert one != third
    assert [message.offset for message in one] == list(range(51))


def test_the_feed_decodes_to_the_rows_that_peers_are_held_to() -> None:
    feed = list(messages(1500, "t"))
    table: dict[str, Image] = {}
    kinds: Counter[str] = Counter()

    first, *events = [event for message in feed for event in decode(message, {})]
    for event in events:
        assert isinstance(event, RowChange)
        key = str(event.key[0])
        assert table.get(key) == event.before  # what a change changes is what the changes before it have left
        kinds[event.op] += 1
        if event.after is None:
            del table[key]
        else:
            table[key] = event.after

    assert isinstance(first, SchemaChange)
    assert kinds.total() == changes_in(feed) > 2 * 1500
    assert min(kinds[op] for op in ("insert", "update", "delete")) > 100
    right = {row.id: row for row in map(cells_of, table.values())}
    assert right == rows_at_end(feed)


def test_the_times_of_the_feed_run_backwards_as_a_binlogs_do() -> None:
    times = [json.loads(message.value or b"")["es"] for message in messages(200, "t")]

    assert times != sorted(times)


def test_columns_of_the_peers_are_those_of_the_feed() -> None:
    assert tuple((field.name, field.spark) for field in NARROW) == COLUMNS


def test_rows_are_read_however_a_peer_prints_them(tmp_path: Path) -> None:
    (tmp_path / "part-0.json").write_text(json.dumps(PRINTED) + "\n")
    (tmp_path / ".part-0.json.crc").write_bytes(b"\xff\x00")
    (tmp_path / "_SUCCESS").touch()

    assert read_rows(tmp_path) == [cells_of(ROW)]


def test_rows_that_differ_are_counted_by_how_they_do() -> None:
    right = {number: cells_of(ROW | {"id": str(number)}) for number in range(4)}
    told = [right[0], right[0], right[1]._replace(quantity=9), cells_of(ROW | {"id": "99"})]

    assert differences([*right.values()][::-1], right) == ""
    assert differences(told, right) == (
        "its rows differ: of 4 rows 2 missing, 2 too many, 1 with other values"
    )


def given(page: Path) -> argparse.Namespace:
    return argparse.Namespace(messages=10, seed=1, peers=list(TITLES), report=page)


def loaded(*many: float, few: float = 4.0) -> Result:
    costs = {"many": [Cost(9, cpu, 800) for cpu in many], "few": [Cost(2, few, 500) for _ in many]}
    return Result(costs, [(2_000_000, 5_000_000) for _ in many])


def test_the_page_holds_ours_against_each_peer_without_their_starts(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# What\n\n<!-- figures -->\nearlier\n<!-- end -->\n\nbehind\n")
    results = {"ours": loaded(10, 14), "hudi": loaded(20, 20), "flink-sql": loaded(9)}
    results["flink-sql"].failure = "its rows differ: of 4 rows 2 missing"
    results["paimon-action"] = Result(failure="could not be fetched: no\nanswer")

    place_figures(given(page), Found(results, changes=1_000_000, rows=4, bytes=7000))

    text = page.read_text()
    assert "| 12.0 | 4.0 | 8.0 | 8 |  |  | 9.0 | 2.0 | 800 | 2.0 | 5.0 |" in text
    assert "| 20.0 | 4.0 | 16.0 | 16 | 0.60 × | **0.50 ×** | 9.0 |" in text
    assert "No figures for Flink SQL 1.20.5 into Paimon 1.3.1: its rows differ: of 4 rows 2 missing" in text
    assert "No figures for Paimon 1.3.1, kafka_sync_table: could not be fetched: no answer" in text
    assert "\n<!-- end -->\n\nbehind" in text
    assert "earlier" not in text


def test_without_ours_there_is_nothing_to_hold_peers_against(tmp_path: Path) -> None:
    place_figures(given(tmp_path / "page.md"), Found({"hudi": loaded(20)}, changes=1, rows=1))

    assert "×" not in (tmp_path / "page.md").read_text()


def test_rounds_of_the_same_feed_are_kept_for_a_later_run(tmp_path: Path) -> None:
    path, new = tmp_path / "kept.json", Found({"hudi": Result()}, changes=5, rows=4, bytes=7, seed=1)
    keep(path, replace(new, results={"hudi": loaded(20, 21), "ours": loaded(10)}))

    again = kept(path, new)

    assert again.results == {"ours": loaded(10), "hudi": loaded(20, 21)}
    assert again.rounds == 1
    assert kept(tmp_path / "none", new) is new
    with pytest.raises(SystemExit, match="expected rounds of the same feed"):
        kept(path, replace(new, changes=6))


def test_every_peer_has_a_title() -> None:
    assert list(TITLES) == list(PEERS)


def test_titles_name_the_versions_that_are_fetched() -> None:
    lists = "".join(path.read_text() for path in FOLDER.glob("*.txt"))

    for version in re.findall(r"\d+\.\d+\.\d+", "".join(TITLES.values())):
        assert version in lists


@pytest.mark.parametrize("path", sorted(FOLDER.glob("jars_*.txt")), ids=lambda path: path.stem)
def test_every_jar_is_listed_with_its_checksum(path: Path) -> None:
    entries = [line for line in path.read_text().splitlines() if not line.startswith("#")]

    assert all(re.fullmatch(r"[\w.-]+:[\w.-]+:[\w.-]+ [0-9a-f]{64}", line) for line in entries)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("packages_*.txt")), ids=lambda path: path.stem)
def test_every_package_is_listed_with_its_checksum(path: Path) -> None:
    lines = path.read_text().splitlines()

    assert all(re.fullmatch(r"[\w-]+==[\d.]+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)


def test_the_jvm_of_peers_has_the_settings_of_ours() -> None:
    assert set(JVM) <= set(session._JVM)


def test_flink_is_told_where_the_topic_ends() -> None:
    load = "\n".join(flink.loading("host:1", "many", Path("/w")))

    assert "'scan.bounded.mode' = 'latest-offset'" in load
    assert "`at` TIMESTAMP(6)" in load
    assert "file:/w" in load


CHILD = "import subprocess, sys; {}; sys.exit({})"
BUSY = "[number ** 2 for number in range(3_000_000)]"


def run(body: str, code: int, log: Path, **more: object) -> Cost:
    return measured_run([sys.executable, "-c", CHILD.format(body, code)], {}, log, **more)  # type: ignore[arg-type]


def test_a_process_is_measured_with_what_it_starts(tmp_path: Path) -> None:
    alone = run(BUSY, 0, tmp_path / "log")
    other = f"subprocess.run([sys.executable, '-c', {f'{BUSY}; import time; time.sleep(0.3)'!r}])"
    both = run(f"{BUSY}; {other}", 0, tmp_path / "log")

    assert alone.cpu > 0.05
    assert alone.peak > 5
    assert both.cpu > 1.5 * alone.cpu


def test_a_process_that_fails_is_no_figure(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="got exit code 3:\nwhy"):
        run("print('why', flush=True)", 3, tmp_path / "log")


def test_a_process_without_end_is_ended_when_it_is_done(tmp_path: Path) -> None:
    looks = iter([False, False, True])

    cost = run("import time; time.sleep(60)", 0, tmp_path / "log", done=lambda: next(looks))

    assert cost.wall < 30


RENAMED = Renaming("org/apache/kafka", "shaded/org/apache/kafka")


def text(value: bytes) -> bytes:
    return struct.pack(">BH", 1, len(value)) + value


def class_file(*constants: bytes) -> bytes:
    pool = b"".join(constants)
    # a long takes two places
    count = 1 + len(constants) + sum(one[0] == 5 for one in constants)
    return b"\xca\xfe\xba\xbe\0\0\0\x34" + struct.pack(">H", count) + pool + b"org/apache/kafka/x"


def test_a_renamed_package_is_renamed_in_every_text_of_a_class() -> None:
    number = struct.pack(">BQ", 5, 7)
    old = class_file(text(b"(ILorg/apache/kafka/A;)V"), number, text(b"org.apache.kafka.B"), text(b"kafka/C"))

    assert relocated_class(old, RENAMED) == class_file(
        text(b"(ILshaded/org/apache/kafka/A;)V"), number, text(b"shaded.org.apache.kafka.B"), text(b"kafka/C")
    )
    assert relocated_class(relocated_class(old, RENAMED), RENAMED) == relocated_class(old, RENAMED)


def test_a_jar_has_the_renamed_classes_under_their_new_names(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "old.jar", "w") as jar:
        jar.writestr("org/apache/kafka/A.class", class_file(text(b"org/apache/kafka/A")))
        jar.writestr("META-INF/X.SF", "signed")
        jar.writestr("kafka/version.properties", "org.apache.kafka=1")

    relocate(tmp_path / "old.jar", tmp_path / "new.jar", RENAMED)

    with zipfile.ZipFile(tmp_path / "new.jar") as jar:
        assert jar.namelist() == ["shaded/org/apache/kafka/A.class", "kafka/version.properties"]
        assert jar.read("kafka/version.properties") == b"org.apache.kafka=1"
