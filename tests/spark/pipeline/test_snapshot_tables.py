"""Tables of a real MariaDB that a writer changes, snapshotted by the command and joined to their feed: gold
is the server, whatever died on the way.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.config.load import database_settings, load
from lakehouse.errors import LakehouseError
from lakehouse.events import Message
from lakehouse.formats.snapshot.records import Place
from lakehouse.lineage import READ_WHILE
from lakehouse.ops.progress import TableSnapshot, TableSnapshots
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.operators import Epoch
from lakehouse.ops.records.silver import Done
from lakehouse.reporting.text.layout import drawn
from lakehouse.reporting.text.runs import plan_parts
from lakehouse.sources.live.parallel import Progress as Reached
from lakehouse.sources.live.read import Begun, Mark
from lakehouse.sources.live.tables import Listed
from lakehouse.spark.bronze.snapshots import land_snapshot
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.rebuild import rebuild_silver
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline import snapshot_tables as command
from lakehouse.spark.pipeline.import_dump import Given, import_dump
from lakehouse.spark.pipeline.run import runs
from lakehouse.spark.pipeline.snapshot_tables import Asked, list_tables, not_listed, snapshot_tables
from lakehouse.spark.readers.status import plan
from lakehouse.spark.source import Source, source_of
from lakehouse.spark.verification.looks import Compared, Options
from lakehouse.spark.verification.run import verify
from tests.servers.mariadb import MariaDb, run_program, start_mariadb
from tests.support.busy_server import BusyServer, in_order
from tests.support.killed_snapshot import kill_snapshot
from tests.support.lakes import quiet, shown, write_recording
from tests.support.records import manifest, table_entry

PASSWORD = "hunter2hunter2"


BINLOG = ("--log-bin=binlog", "--server-id=7", "--binlog-format=ROW")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), *BINLOG) as server:
        yield server


class Shop:
    """A source of a recording whose database is the server, and its lake."""

    def __init__(self, folder: Path, busy: BusyServer, port: int) -> None:
        self.folder, self.busy, self.recording = folder, busy, folder / "recording.jsonl"
        (folder / "configs/sources").mkdir(parents=True)
        (folder / "configs/sources/shop.yml").write_text(
            f"format: debezium\nrecording: {self.recording}\ntables: auto\ndatabase:\n  host: 127.0.0.1\n"
            f"  port: {port}\n  user: root\n  password: ${{env:SHOP_PASSWORD}}\n  tls: off\n"
        )
        self.lake = folder / "lake"

    def source(self) -> Source:
        return source_of(load(self.folder / "configs"), "shop", str(self.lake))

    def run(self) -> None:
        """Run all layers on what the server has done so far."""
        write_recording(self.recording, list(self.busy.messages))
        every = ("bronze", "silver", "gold")
        list(runs(load(self.folder / "configs"), every, True, (), lake=str(self.lake), progress=quiet))

    def snapshot(self, *tables: str, told: Any = quiet, **asked: Any) -> dict[str, Any]:
        return snapshot_tables(self.source(), Asked(tables, **asked), told)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        return {name: in_order(rows) for name, rows in shown(self.lake, self.folder / "shown").items()}

    def differences(self) -> dict[str, int]:
        """How many rows of each table differ from the server's, or can't be told."""

        def beat(_: float) -> None:
            self.busy.transact()
            self.run()

        source = self.source()
        options = Options(pause=beat, wait=8.0)
        found = verify(Compared(source, database_settings(source.config), options, quiet))
        assert all(one.compared for one in found)
        return {one.name[1]: len(one.different) + len(one.undecided) for one in found}

    def older(self) -> str:
        """What `plan` says of tables that were there before the feed."""
        shown = drawn(plan_parts(plan(load(self.folder / "configs"), str(self.lake))))
        return next((line for line in shown.splitlines() if "`lakehouse snapshot shop`" in line), "")

    def states(self, spark: Any) -> dict[str, str | None]:
        """What the newest manifest says of each table that is not exact."""
        manifest = OpsLog(spark, Lake(str(self.lake)), "shop").load().last(Manifest)
        assert manifest is not None
        return {f"{one.database}.{one.table}": one.why for one in manifest.tables if one.state != "exact"}


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)


def test_gold_is_the_server_after_a_snapshot_that_a_writer_went_on_in(
    spark: Any, server: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = BusyServer(server.port, 1, rows=3000)
    shop, told = Shop(tmp_path, busy, server.port), list[str]()

    def land_late(context: Any, messages: Iterator[Message]) -> int:
        """After gold has published what was streamed since."""
        records = list(messages)
        shop.run()
        return land_snapshot(context, records)

    monkeypatch.setattr(command, "CHUNK_ROWS", 300)
    monkeypatch.setattr(command, "land_snapshot", land_late)
    busy.transact()

    with busy.writing():
        result = shop.snapshot("shop.*", told=told.append, rows_per_second=20_000)
    busy.transact()
    shop.run()
    last = shop.tables()
    rebuild_silver(str(shop.lake), "shop", True, "to see that bronze tells all")
    shop.run()

    assert (result["tables"], result["server"]) == (3, "MariaDB")
    assert result["rows"] > 8000
    assert last == busy.truth()
    assert shop.states(spark) == {}
    assert shop.tables() == last
    assert PASSWORD not in "".join(told)


@pytest.mark.parametrize("number", (12, pytest.param(50, marks=pytest.mark.long)))
def test_many_small_tables_and_a_second_snapshot_of_one(
    spark: Any, server: MariaDb, tmp_path: Path, number: int
) -> None:
    busy = BusyServer(server.port, 2, 20, [f"item_{one}" for one in range(number)])
    shop = Shop(tmp_path, busy, server.port)
    busy.transact()
    shop.run()

    with busy.writing():
        first = shop.snapshot(parallel=4)
    listed = list_tables(shop.source(), Asked(("shop.item_1*",)))
    again = shop.snapshot("shop.item_7")
    busy.transact()
    shop.run()

    assert first["tables"] == number
    assert [one["table"] for one in listed[:2]] == ["shop.item_1", "shop.item_10"]
    assert again["tables"] == 1
    assert shop.tables() == busy.truth()
    assert shop.states(spark) == {}


def test_a_snapshot_that_was_killed_shows_nothing_and_goes_on(
    spark: Any, server: MariaDb, tmp_path: Path
) -> None:
    busy = BusyServer(server.port, 3, rows=1500)
    shop, told = Shop(tmp_path, busy, server.port), list[str]()
    for _ in range(5):
        busy.transact()
    shop.run()
    before = shop.tables()

    with busy.writing():
        kill_snapshot(shop.folder / "configs", shop.lake, commits=6)
    shop.run()
    after_death = shop.tables()
    with busy.writing():
        result = shop.snapshot(told=told.append)
        shop.run()
    busy.transact()
    shop.run()

    assert after_death.keys() == before.keys()
    # `bag`, which is read in one, may be whole; of the others nothing but the feed has told any row or type
    assert {type(row["n"]) for name in ("shop.item", "shop.pair") for row in after_death[name]} == {str}
    assert any("goes on with the run of" in line for line in told) or result["tables"] == 3
    assert result["rows"] < 4400
    assert shop.tables() == busy.truth()
    assert shop.states(spark) == {}


def test_incomplete_tables_are_read_again_and_no_other(spark: Any, server: MariaDb, tmp_path: Path) -> None:
    busy = BusyServer(server.port, 4, rows=30, tables=("item_1", "item_2"))
    shop = Shop(tmp_path, busy, server.port)
    busy.transact()
    shop.run()
    shop.snapshot()
    busy.lose("item_2")
    shop.run()
    states = shop.states(spark)
    listed = list_tables(shop.source(), Asked(incomplete=True))
    shop.snapshot(incomplete=True)
    busy.transact()
    shop.run()

    assert set(states) == {"shop.item_2"}, states
    assert [one["table"] for one in listed] == ["shop.item_2"]
    assert shop.states(spark) == {}
    assert shop.tables() == busy.truth()
    assert list_tables(shop.source(), Asked(incomplete=True)) == []


def test_a_snapshot_of_what_is_incomplete_says_that_dead_letters_stay_open(
    spark: Any, server: MariaDb, tmp_path: Path
) -> None:
    busy = BusyServer(server.port, 4, rows=3, tables=("item",))
    shop, said = Shop(tmp_path, busy, server.port), list[str]()
    busy.transact()
    topic = "s.shop.item"
    busy.messages.append(Message(topic, 0, busy.offsets.get(topic, 0), None, b'{"op": "c", '))
    shop.run()

    shop.snapshot(incomplete=True, told=said.append)

    assert set(shop.states(spark)) == {"shop.item"}
    assert [text for text in said if "letter" in text] == [
        "warning: 1 dead letter open: what these keep from being exact stays so until they are dismissed "
        "too; see `lakehouse dead-letters list`"
    ]


def test_incomplete_tables_are_read_again_while_a_writer_and_the_pipeline_go_on(
    spark: Any, server: MariaDb, tmp_path: Path
) -> None:
    busy = BusyServer(server.port, 6, rows=1500, tables=("item_1", "item_2", "bag"))
    shop = Shop(tmp_path, busy, server.port)
    busy.transact()
    shop.run()
    shop.snapshot()
    busy.lose("item_2")
    shop.run()
    states = shop.states(spark)
    with busy.writing():
        kill_snapshot(shop.folder / "configs", shop.lake, "--incomplete", commits=4)
        shop.run()
        result = shop.snapshot(incomplete=True)
        shop.run()
    busy.transact()
    shop.run()

    assert (set(states), result["tables"]) == ({"shop.item_2"}, 1)
    assert shop.states(spark) == {}
    assert shop.differences() == dict.fromkeys(busy.tables, 0)
    assert shop.tables() == busy.truth()


def test_an_account_that_may_select_alone_is_enough(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a server of its own, for the others' has no accounts."""
    with start_mariadb(tmp_path / "server", *BINLOG) as own:
        busy = BusyServer(own.port, 8, rows=30)
        shop = Shop(tmp_path, busy, own.port)
        for sql in (
            "FLUSH PRIVILEGES",
            "CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'only reads'",
            "GRANT SELECT ON shop.* TO reader@'127.0.0.1'",
        ):
            busy.run(sql)
        file = shop.folder / "configs/sources/shop.yml"
        file.write_text(file.read_text().replace("user: root", "user: reader"))
        busy.transact()
        shop.run()
        assert shop.older() != ""

        with pytest.raises(LakehouseError, match="Access denied"):
            shop.snapshot()
        monkeypatch.setenv("SHOP_PASSWORD", "only reads")
        shop.snapshot()
        busy.transact()
        shop.run()

        assert shop.tables() == busy.truth()
        assert (shop.states(spark), shop.older()) == ({}, "")


DUMPS = {
    "mariadb-dump": ("--single-transaction", "--master-data=2", "--databases", "shop"),
    "mydumper": ("--database=shop", "--trx-consistency-only", "--compress", "--threads=1"),
    "dumpling": ("--database=shop", "--status-addr=127.0.0.1:0"),
}


@pytest.mark.parametrize("program", DUMPS)
def test_a_dump_that_was_taken_while_a_writer_went_on_ends_in_no_difference(
    spark: Any, server: MariaDb, tmp_path: Path, program: str
) -> None:
    if program != "mariadb-dump" and shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    busy = BusyServer(server.port, 7, rows=1500)
    shop = Shop(tmp_path, busy, server.port)
    busy.transact()
    shop.run()

    with busy.writing():
        dump = dumped(server, program, tmp_path / "dump")
        result = import_dump(shop.source(), Given(dump, None), quiet)
        shop.run()
    busy.transact()
    shop.run()

    assert result["tables"] == 3
    assert shop.states(spark) == {}
    assert shop.differences() == dict.fromkeys(busy.tables, 0)
    assert shop.tables() == busy.truth()


def dumped(server: MariaDb, program: str, path: Path) -> str:
    if program == "mariadb-dump":
        path = path.with_suffix(".sql")
        path.write_bytes(run_program(program, server, *DUMPS[program]))
        return str(path)
    into = "--outputdir" if program == "mydumper" else "--output"
    where = ("--host=127.0.0.1", f"--port={server.port}", "--user=root", f"{into}={path}")
    subprocess.run([program, *where, *DUMPS[program]], check=True, capture_output=True, timeout=60)
    return str(path)


def test_what_does_not_fit_the_feed_is_refused_and_lands_nothing(
    spark: Any, server: MariaDb, tmp_path: Path
) -> None:
    busy = BusyServer(server.port, 5, rows=3)
    shop = Shop(tmp_path, busy, server.port)

    with pytest.raises(LakehouseError, match="expected a feed that has told of some table, got none yet"):
        shop.snapshot()
    with pytest.raises(LakehouseError, match=r"shop\.nothing: expected a table of the database, got none"):
        shop.snapshot("shop.nothing")
    file = shop.folder / "configs/sources/shop.yml"
    file.write_text(file.read_text().replace("format: debezium", "format: ticdc-open\ntime_zone: UTC"))
    with pytest.raises(LakehouseError, match="expected a TSO, as the source's feed has, got binlog"):
        shop.snapshot("shop.item")
    file.write_text(file.read_text().replace("format: ticdc-open\ntime_zone: UTC", "format: canal"))
    with pytest.raises(LakehouseError, match="expected a feed in Kafka, for its topic tells"):
        shop.snapshot("shop.item")
    assert not (shop.lake / "bronze").exists()


@pytest.mark.parametrize(
    ("epochs", "place", "refused"),
    (
        ((), Place(file="b.000007", offset=4), False),
        ((), Place(file="b.000006", offset=900), False),
        ((), Place(file="b.000006", offset=899), True),
        ((), Place(file="b.000002", offset=4000), True),
        ((1,), Place(file="b.000001", offset=4), False),
    ),
)
def test_a_server_that_is_not_as_far_as_its_feed_is_another_one(
    epochs: tuple[int, ...], place: Place, refused: bool
) -> None:
    kept = [SimpleNamespace(epoch=epoch) for epoch in epochs]
    done = SimpleNamespace(reach=(0, 6, 900, 1, 3, 0), servers=None, snapshots=())
    log: Any = SimpleNamespace(
        source="shop",
        last=lambda kind: done,
        all=lambda kind: kept if kind is Epoch else [],
    )

    with pytest.raises(LakehouseError, match="behind what the feed has told") if refused else nullcontext():
        command.refuse_gap(log, place, quiet)


@pytest.mark.parametrize(
    ("state", "offset", "name", "refused"),
    (
        ("incomplete", 900, "item", True),
        ("exact", 900, "item", False),
        ("incomplete", 901, "item", False),
        ("incomplete", 900, "other", False),
    ),
)
def test_a_table_is_not_mended_by_a_second_snapshot_at_one_place(
    state: str, offset: int, name: str, refused: bool
) -> None:
    whole = TableSnapshots(whole=(TableSnapshot("shop", "item", (0, 6, 900, 0, 0, 0)),))
    kept: dict[Any, Any] = {
        Done: SimpleNamespace(snapshots=whole),
        Manifest: manifest(table_entry(database="shop", table="item", state=state)),
    }
    log: Any = SimpleNamespace(source="shop", last=kept.get, all=lambda kind: [])
    place = Place(file="b.000006", offset=offset)
    told = r"shop\.item: expected a server that has written something since .* still at b\.000006:900: write"

    with pytest.raises(LakehouseError, match=told) if refused else nullcontext():
        command.refuse_same_place(log, {("shop", name)}, place)


def test_progress_tells_the_rate_and_how_long_the_rest_takes() -> None:
    tables = [Listed(("shop", "item"), "InnoDB", 3_000, 1), Listed(("shop", "log"), "InnoDB", 9_000, 1)]
    reached = Reached(rows=4_000, done=1)

    assert command.progress_line(reached, tables, 5) == "4,000 rows, 1 of 2 tables"
    assert command.progress_line(reached, tables, 20) == (
        "4,000 rows, 1 of 2 tables, 200 a second, about 40 s left"
    )
    # a server says only about how many rows there are
    reached.rows = 20_000
    assert command.progress_line(reached, tables, 20) == "20,000 rows, 1 of 2 tables, 1,000 a second"


def test_a_run_that_has_read_all_of_the_tables_is_not_gone_on_with() -> None:
    """It never ends where one of its tables was dropped: what it has read would not be read again."""
    a, b = (Listed(("shop", name), "InnoDB", rows=1, size=1) for name in "ab")
    last = command.LastRun("2026", finished=False, done=frozenset({a.name}))

    assert command.left_of([a, b], last, Asked()) == ([b], last)
    assert command.left_of([a], last, Asked()) == ([a], command.LastRun())
    assert command.left_of([a, b], last, Asked(again=True)) == ([a, b], command.LastRun())


@pytest.mark.parametrize(
    ("state", "why", "goes_on"),
    (
        ("exact", None, True),
        ("incomplete", READ_WHILE, True),
        ("incomplete", "12 offsets of shop were deleted before they were read", False),
    ),
)
def test_a_table_that_has_become_incomplete_since_is_read_from_its_first_row(
    state: str, why: str | None, goes_on: bool
) -> None:
    names = [("shop", name) for name in ("begun", "done", "other")]
    mark = Mark(run="2026", tables=3, database="shop", table="begun", place=Place(), rows=5)
    begun = {names[0]: Begun("a", 1, mark)}
    last = command.LastRun("2026", finished=False, done=frozenset(names[1:]), begun=begun)
    entries = (table_entry(database=one[0], table=one[1], state=state, why=why) for one in names[:2])

    found = command.without_doubtful(last, manifest(*entries))

    assert (set(found.begun), found.done) == (
        (set(names[:1]), last.done) if goes_on else (set(), frozenset(names[2:]))
    )
    assert command.without_doubtful(last, None) == last


def test_a_table_that_the_server_does_not_list_is_named() -> None:
    tables = [Listed(("shop", "item"), "InnoDB", 1, size=1)]
    wanted = frozenset({("shop", "item"), ("shop", "versioned"), ("crm", "item")})

    assert not_listed(tables, wanted) == ["crm.item", "shop.versioned"]
    assert not_listed(tables, frozenset()) == []


def test_a_password_that_is_not_set_is_told_before_a_session_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Needs no session."""
    (tmp_path / "sources").mkdir()
    (tmp_path / "r.jsonl").touch()
    (tmp_path / "sources/shop.yml").write_text(
        f"format: debezium\nrecording: [{tmp_path / 'r.jsonl'}]\n"
        "database: {host: localhost, user: u, password: '${env:NOT_SET_ANYWHERE}'}\n"
    )
    source = source_of(load(tmp_path), "shop", str(tmp_path / "lake"))
    monkeypatch.setattr(command, "get_session", lambda: pytest.fail("a session was asked for"))

    with pytest.raises(LakehouseError, match="NOT_SET_ANYWHERE is not set"):
        list_tables(source, Asked())
    with pytest.raises(LakehouseError, match="NOT_SET_ANYWHERE is not set"):
        snapshot_tables(source, Asked(), quiet)
