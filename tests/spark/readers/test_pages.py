"""`lakehouse ui` on real lakes: over real HTTP, and in a real browser while the lake grows."""

import html
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from lakehouse.config.load import load
from lakehouse.demo.run import RECORDING
from lakehouse.events import MIN_POSITION as ZERO
from lakehouse.ops.progress import Counts, TableSize
from lakehouse.ops.records.operators import Generation
from lakehouse.ops.records.silver import Done
from lakehouse.reporting.text.tables import View
from lakehouse.reporting.web.readings import After, NotThere, Place
from lakehouse.reporting.web.routes import Site
from lakehouse.reporting.web.server import HOST, Server
from lakehouse.spark.readers.pages import LakePages, _manifest, _table_changes
from lakehouse.spark.readers.row_history import keys_like
from lakehouse.spark.readers.timeline import newest_commits
from tests.reporting.web.test_report import BEGUN, parsed, words
from tests.spark.gold.test_modes import resolved, run_all, shop
from tests.support.browser import NO_BROWSER, opened, program, wait_for
from tests.support.feeds import Canal, TiCDC
from tests.support.lakes import run, text, write_recording
from tests.support.paths import ROOT
from tests.support.records import log_of, manifest, table_entry

GARBAGE = b"\0\x01<script>no message</script>"
HALF = 32
FIRST_OF_SHOP = {"topic": "shop", "partition": 0, "offset": 19}


@contextmanager
def served(lake: Path) -> Iterator[Server]:
    with Server(0) as server:
        pages = server.read(lambda: LakePages(None, str(lake)), None)

        def views(found: Any) -> dict[str, View]:
            return {one["source"]: View(one["order"]) for one in found}

        thread = threading.Thread(target=server.serve, args=(Site(pages, views, pages.where, "0.1.0"),))
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join()


def ask(server: Server, path: str, **query: Any) -> tuple[int, str]:
    connection = http.client.HTTPConnection(HOST, server.port, timeout=120)
    connection.request("GET", f"{path}?{urlencode(query, doseq=True)}")
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    parsed(body)
    return answer.status, words(body)


def page(server: Server, path: str, **query: Any) -> str:
    status, said = ask(server, path, **query)
    assert status == 200, said
    return said


def recorded(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_demos_lake_is_shown_as_it_grows_with_all_that_is_in_it(spark: Any, tmp_path: Path) -> None:
    browser = program()
    if browser is None:
        pytest.skip(NO_BROWSER)
    lake, lines = tmp_path / "lake", RECORDING.read_text().splitlines()
    broken = json.dumps({**FIRST_OF_SHOP, "key_b64": None, "value_b64": text(GARBAGE)})
    run(recorded(tmp_path / "demo.jsonl", lines[:HALF]), lake)

    with served(lake) as server, opened(browser) as tab:
        tab.open(server.url)
        before = tab.ask("document.querySelectorAll('rect.bar').length")
        run(recorded(tmp_path / "demo.jsonl", [*lines, broken]), lake)
        wait_for(lambda: tab.ask("document.querySelectorAll('#s0-8 tbody tr').length") == 2, 120)
        grown = tab.ask("document.body.innerText")
        bars = tab.ask("document.querySelectorAll('rect.bar').length")
        problems = list(tab.problems)

        table = page(server, "/table", source="demo", table="shop.clients")
        row = page(server, "/row", source="demo", table="shop.clients", k=1)
        gone = page(server, "/row", source="demo", table="shop.orders", k=1001)
        letters = page(server, "/letters", source="demo")
        letter = page(server, "/letter", source="demo", **FIRST_OF_SHOP)
        numbers = [one.number for one in LakePages(None, str(lake)).manifests("demo", None).manifests]
        ends = {"from": numbers[1], "to": numbers[0]}
        manifests = page(server, "/manifests", source="demo")
        difference = page(server, "/diff", source="demo", **ends)
        changes = page(server, "/changes", source="demo", table="shop.clients", **ends)
        other = ask(server, "/letter", source="demo", topic="shop", partition=0, offset=2)

    assert (before, bars) == (1, 2)
    assert "shop.clients\tincomplete\t1 dead letters" in grown
    assert "lakehouse dead-letters requeue demo" in grown
    assert problems == []
    assert "Names so far: shop.customers, shop.clients" in table
    assert "history 30 Zoë Müller zoe@example.com -12.34 0 2024-02-29 23:59:59" in table
    assert "ALTER TABLE `shop`.`customers` DROP COLUMN `note` removes a column" in table
    assert "insert id: 1 name: Alice email: alice@example.com balance: 100.50" in row
    assert "note: first customer" in row
    assert "update balance: 100.50 → 75.00 shop/1@5[0] shop.customers, batch 1" in row
    assert "update status: new → paid shop/2@4[1]" in gone
    assert "open " in letters
    assert "3c 73 63 72" not in letters
    assert "00000000 00 01 3c 73 63 72 69 70 74 3e 6e 6f 20 6d 65 73 |..<script>no mes|" in letter
    assert len(numbers) == 2
    assert "2 incomplete" in manifests
    assert (
        "shop.clients not there → incomplete" in difference or "shop.clients exact → incomplete" in difference
    )
    assert "TRUNCATE TABLE `shop`.`orders`" in difference
    assert "update id: 4 vip: 0 → 1 shop/2@15[0]" in changes
    assert "balance: 100.50 → 75.00" not in changes
    assert other[0] == 404
    assert "expected a dead letter of that record, found none" in other[1]


def test_masked_columns_stay_masked_under_every_name_they_had_and_excluded_ones_are_not_shown(
    spark: Any, tmp_path: Path
) -> None:
    feed = shop()
    feed.row(12 << 18, "UPDATE", {"id": 1, "a": "secret-new", "b": "x"}, {"a": "a1"})
    feed.ddl(13 << 18, "ALTER TABLE `t` CHANGE COLUMN `a` `c` VARCHAR(20)")
    feed.row(14 << 18, "UPDATE", {"id": 1, "c": "secret-last", "b": "y"}, {"c": "secret-new"})
    yaml = "columns: {c: {mask: last4}, b: {exclude: true}}"
    run_all(
        tmp_path,
        "ticdc-canal-json",
        write_recording(tmp_path / "r.jsonl", resolved(feed, 15).messages),
        {"d.t": yaml},
    )

    with served(tmp_path / "lake") as server:
        table = page(server, "/table", source="s", table="d.t")
        row = page(server, "/row", source="s", table="d.t", k=1)

    assert "id c history 0 ** history 1 *******last history 2 **" in table
    assert "insert id: 1 a: ** " in row
    assert "update a: ** → ******-new" in row
    assert "update c: ******-new → *******last" in row
    assert "secret" not in table + row
    assert "b: " not in row


def test_a_merged_tables_rows_have_the_changes_of_all_its_parts_and_a_keyless_one_has_none(
    spark: Any, tmp_path: Path
) -> None:
    feed, types = TiCDC(), {"b": "int", "a": "varchar", "v": "int"}
    for number in (1, 2):
        feed.ddl(number << 18, f"CREATE TABLE `o{number}` (`id` INT PRIMARY KEY, `a` CHAR(2))", f"o{number}")
        feed.row((10 + number) << 18, "INSERT", {"id": 7, "a": f"x{number}"}, table=f"o{number}")
    feed.ddl(20 << 18, "CREATE TABLE `none` (`id` INT)", "none")
    feed.row(21 << 18, "INSERT", {"id": 1}, key=(), table="none")
    feed.ddl(22 << 18, "CREATE TABLE `two` (`b` INT, `a` VARCHAR(9), `v` INT, PRIMARY KEY (`a`, `b`))", "two")
    for op, v, old in (("INSERT", 1, None), ("UPDATE", 2, {"v": 1})):
        row = {"b": 1, "a": "k", "v": v}
        feed.row((22 + v) << 18, op, row, old, types=types, key=("a", "b"), table="two")
    recording = write_recording(tmp_path / "r.jsonl", resolved(feed, 30).messages)
    yamls = {"d.all": "tables: [d.o1, d.o2]", "d.two": "columns: {a: {rename: aa}}"}
    run_all(tmp_path, "ticdc-canal-json", recording, yamls)
    pages = LakePages(None, str(tmp_path / "lake"))

    merged = pages.row("s", "d.all", ("7",), None).changes
    two = pages.row("s", "d.two", ("k", "1"), None)

    assert [(change.table, change.after) for change in merged] == [
        ("d.o1", {"id": 7, "a": "x1"}),
        ("d.o2", {"id": 7, "a": "x2"}),
    ]
    assert [pages.table("s", name).key for name in ("d.all", "d.none", "d.two")] == [("id",), (), ("aa", "b")]
    assert two.key == (("aa", "k"), ("b", "1"))
    assert [(change.op, change.key) for change in two.changes] == [
        ("insert", ("a", "b")),
        ("update", ("a", "b")),
    ]


def test_a_masked_key_finds_no_row(spark: Any, tmp_path: Path) -> None:
    recording, yaml = write_recording(tmp_path / "r.jsonl", shop().messages), "columns: {id: {hash: sha256}}"
    run_all(tmp_path, "ticdc-canal-json", recording, {"d.t": yaml})

    with served(tmp_path / "lake") as server:
        table = page(server, "/table", source="s", table="d.t")
        status, said = ask(server, "/row", source="s", table="d.t", k=1)

    assert "Gold does not have the source's key as it is" in table
    assert "history" not in table.partition("Rows")[2].partition("Statements")[0]
    assert status == 404
    assert "expected a value for each column of the key (gold has none as it is), got 1" in said


def test_pages_have_a_size_and_what_is_not_there_is_said(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehouse.spark.readers.pages.PAGE", 2)
    feed = shop()
    for number in range(3):
        feed.row((20 + number) << 18, "UPDATE", {"id": 1, "a": f"n{number}", "b": "x"}, {"a": "?", "b": "x"})
    resolved(feed, 30)
    run_all(tmp_path, "ticdc-canal-json", write_recording(tmp_path / "r.jsonl", feed.messages), {})
    pages = LakePages(load(tmp_path / "configs"), None)

    table = pages.table("s", "d.t")
    first = pages.row("s", "d.t", ("1",), None)
    second = pages.row("s", "d.t", ("1",), After(first.changes[-1].position, 1))
    nothing = pages.letters("s", None, 0)

    assert (pages.where, [one["source"] for one in pages.observed()]) == (str(tmp_path / "lake"), ["s"])
    assert (len(table.rows), table.more, table.key, table.columns) == (2, True, ("id",), ("id", "a", "b"))
    assert [change.op for change in first.changes + second.changes] == [
        "insert",
        "update",
        "update",
        "update",
    ]
    assert (first.more, second.more, nothing.letters, nothing.more) == (True, False, (), False)
    for ask_for in (
        lambda: pages.table("s", "d.none"),
        lambda: pages.table("other", "d.t"),
        lambda: pages.row("s", "d.t", ("1", "2"), None),
        lambda: pages.letter("s", Place("topic", "", 0, 1)),
        lambda: pages.difference("s", 1, 2),
    ):
        with pytest.raises(NotThere):
            ask_for()


def test_a_feed_without_watermarks_has_its_batches_looked_at_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = Canal().ddl(BEGUN, "CREATE TABLE `t` (`id` INT PRIMARY KEY, `a` VARCHAR(20))")
    looked_from: list[int] = []

    def look(*asked: Any, **named: Any) -> dict[int, int]:
        looked_from.append(named["first"])
        return newest_commits(*asked, **named)

    monkeypatch.setattr("lakehouse.spark.readers.timeline.newest_commits", look)
    pages = LakePages(None, str(tmp_path / "lake"))
    shown = []
    for second in (1, 2):
        feed.insert(BEGUN + second * 1000, id=second, a="x")
        run_all(tmp_path, "canal", write_recording(tmp_path / "r.jsonl", feed.messages), {})
        shown += [[batch["fresh"] for batch in pages.observed()[0]["batches"]] for _ in range(2)]

    assert shown == [[BEGUN + 1000]] * 2 + [[BEGUN + 1000, BEGUN + 2000]] * 2
    assert looked_from == [1, 2]


def test_a_lag_is_asked_for_again_after_a_while_and_takes_the_place_of_the_one_before(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_all(tmp_path, "ticdc-canal-json", write_recording(tmp_path / "r.jsonl", shop().messages), {})
    found: dict[str, Any] = {"broker": "it is gone"}
    monkeypatch.setattr("lakehouse.spark.readers.status.lag", lambda *_: found)
    pages = LakePages(None, str(tmp_path / "lake"))

    def lag() -> dict[str, Any]:
        status = pages.observed()[0]["status"]
        return {name: status[name] for name in ("broker", "lag_messages") if name in status}

    first = lag()
    found = {"lag_messages": 3}
    soon = lag()
    monkeypatch.setattr("lakehouse.spark.readers.pages.LAG_AWAY", -1)
    later = lag()

    assert (first, soon, later) == ({"broker": "it is gone"}, {"broker": "it is gone"}, {"lag_messages": 3})


def children(process: int) -> list[int]:
    """The processes that any thread of a process has started."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_the_command_says_where_it_is_and_ends_with_its_spark_when_it_is_told_to(
    stop: signal.Signals, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "lakehouse.cli.main",
        "ui",
        "--lake",
        str(tmp_path / "lake"),
        "--port",
        "0",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().strip()
        started = children(process.pid)
        answer = urllib.request.urlopen(url, timeout=120).read().decode()
        process.send_signal(stop)
        said = process.stderr.read().splitlines()
        code = process.wait(60)

    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
    assert "This lake has no source yet: nothing has run." in words(answer)
    assert said == ["ui      starting Spark", f"ui      {tmp_path / 'lake'}", "ui      Ctrl-C ends it"]
    assert code == 0
    assert started
    wait_for(lambda: not any(Path(f"/proc/{child}").exists() for child in started))


def test_a_key_of_text_or_of_numbers_is_looked_for_as_silver_may_hold_it() -> None:
    assert keys_like(["7"]) == ["[7]", '["7"]']
    assert keys_like(['a"b', "-1.50"]) == ['["a\\"b",-1.50]', '["a\\"b","-1.50"]']
    assert keys_like(["007", "1e5", "Zü"]) == ['["007","1e5","Zü"]']
    assert keys_like([str(number) for number in range(7)]) == ["[0,1,2,3,4,5,6]"]


def test_changes_between_two_states_are_counted_by_the_batches_of_their_own_silver() -> None:
    """A silver that was built again has batches of the same numbers. Needs no session."""

    def done(batch: int, changes: int) -> Done:
        tables = (TableSize(("d", "t"), low=ZERO, high=ZERO, n=changes),)
        return Done(
            batch=batch, counts=Counts(), top=None, reach=None, next=(), marks=(), dead=(), tables=tables
        )

    first, second = (manifest(table_entry(version=version), batch=version) for version in (1, 2))
    log = log_of(done(1, 10), first, done(2, 25), second, done(1, 99), Generation(number=2))

    (change,) = _table_changes(log, [_manifest(log, number) for number in (2, 4)])

    assert change is not None
    assert change.changes == 15


def test_changes_of_one_transaction_that_are_more_than_a_page_go_on_on_the_next_one(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehouse.spark.readers.pages.PAGE", 2)
    feed = TiCDC().ddl(1 << 18, "CREATE TABLE t (id INT PRIMARY KEY)")
    run_all(
        tmp_path, "ticdc-canal-json", write_recording(tmp_path / "r.jsonl", resolved(feed, 2).messages), {}
    )
    for number in range(5):
        feed.row(5 << 18, "INSERT", {"id": number})
    run_all(
        tmp_path, "ticdc-canal-json", write_recording(tmp_path / "r.jsonl", resolved(feed, 9).messages), {}
    )
    pages = LakePages(None, str(tmp_path / "lake"))
    newest, oldest = (one.number for one in pages.manifests("s", None).manifests)

    site, found = Site(pages, lambda _: {}, "", ""), list[str]()
    address: str | None = f"source=s&table=d.t&from={oldest}&to={newest}"
    while address is not None and len(found) < 20:
        told = site.page("/changes", address)()
        found += re.findall(r"insert id: (\d)", words(told))
        link = re.search(r"href='/changes\?([^']*after=[^']*)'", told)
        address = None if link is None else html.unescape(link[1])

    assert sorted(found) == ["0", "1", "2", "3", "4"]
