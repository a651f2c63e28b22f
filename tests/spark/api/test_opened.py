"""The Python API on a lake with renames, masks, DDL, rejected rows and dead letters, and on feeds of other
orders.
"""

import subprocess
import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakehouse.api import LakehouseError, NotExact, OpenLake, open_lake
from lakehouse.spark import limits
from lakehouse.spark.pipeline.try_recording import try_recording
from tests.spark.gold.test_modes import run_all
from tests.support.feeds import Debezium, TiCDC
from tests.support.lakes import quiet, write_recording

TOTALS = "2026-11-21 01:20:00"
# most tests read tables that are not exact
pytestmark = pytest.mark.filterwarnings("ignore::lakehouse.api.NotExact")
PLAIN = "customer1@example.com"


@pytest.fixture(scope="module")
def lake(made_shop: Path) -> OpenLake:
    return open_lake(str(made_shop))


def test_importing_the_package_imports_no_spark() -> None:
    code = "import lakehouse, sys; print([name for name in ('pyspark', 'pandas') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_a_folder_without_a_lake_is_an_error_that_says_what_makes_one(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(LakehouseError, match=r"expected a lake, found none; `lakehouse run` makes one"):
        open_lake(str(tmp_path / "nothing"))


def test_a_table_that_is_not_exact_is_read_with_a_warning_of_its_reason(lake: OpenLake) -> None:
    state = lake.state("shop.orders")

    with pytest.warns(NotExact, match=r"shop.orders is incomplete since 2026-11-21 01:1.*: 2 dead letters"):
        lake.table("shop.orders")
    with pytest.warns(NotExact) as told:
        lake.table_at("shop.orders", "2026-11-21 01:59:00")
    assert [one.filename for one in told if one.category is NotExact] == [__file__]
    assert (state.state, state.upto_time) == ("incomplete", datetime(2026, 11, 21, 2, 1, 59, 800_000, UTC))
    assert list(lake.tables()["state"]) == ["incomplete", "incomplete"]
    assert list(lake.sources()["dead_letters"]) == [2]


def test_a_moment_before_a_table_lacked_something_gives_no_warning(lake: OpenLake) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotExact)
        rows = lake.table_at("shop.customers", "2026-11-21 01:20:00")

    assert rows.count() == 6


def test_masked_columns_are_masked_wherever_the_api_shows_a_row(lake: OpenLake) -> None:
    one = lake.changes("shop.customers").where("op = 'update'").first()
    assert one is not None
    email = one.after.email

    frames = [
        lake.table("shop.customers"),
        lake.table_at("shop.customers", TOTALS),
        lake.changes("shop.customers"),
        lake.history_of("shop.customers", email),
        lake.diff("shop.customers", TOTALS, None),
        lake.views()["silver_shop__customers"],
    ]
    texts = [str(frame.collect()) for frame in frames]

    assert [text for text in texts if "example.com" in text or "4000-" in text] == []
    assert all(email in text for text in texts)
    assert one.key == f'["{email}"]'
    assert one.changed == ["city"]
    assert one.after.card_number == "***************0001"
    assert lake.history_of("shop.customers", PLAIN).count() == 0


def test_a_moment_is_a_tso_a_time_or_a_position_and_all_of_them_give_the_same_rows(lake: OpenLake) -> None:
    last = lake.manifests().iloc[0]
    time = last["upto_time"]
    moments = [last["position"], list(last["position"]), last["position"][1], str(last["position"][1])]
    moments += [time, time.to_pydatetime(), str(time)]

    rows = [sorted(map(tuple, lake.table_at("shop.orders", one).collect())) for one in moments]

    assert len(rows[0]) == 8
    assert all(one == rows[0] for one in rows)
    assert rows[0] == sorted(map(tuple, lake.table("shop.orders", manifest=0).collect()))


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        ("2027-01-01", "expected a moment up to the watermark, 2026-11-21 02:01:59 UTC"),
        ("yesterday", "yesterday: expected a TSO, a time such as"),
        ("2026-11-20", "shop.orders: expected a table that existed at 2026-11-20"),
    ],
)
def test_a_moment_that_can_not_be_is_refused(lake: OpenLake, moment: str, words: str) -> None:
    with pytest.raises(LakehouseError, match=words):
        lake.table_at("shop.orders", moment)


def test_a_difference_names_rows_and_columns_and_a_rejected_row_is_in_none(lake: OpenLake) -> None:
    found = {row.id: (row.change, row.columns) for row in lake.diff("shop.orders", TOTALS, None).collect()}

    assert (found[3], found[10], found[1]) == (("removed", None), ("added", None), ("changed", ["note"]))
    assert len(found) == 23
    assert 90 not in found
    assert lake.diff("shop.orders", TOTALS, TOTALS).count() == 0
    assert [(row.key, row.reasons) for row in lake.rejected("shop.orders").collect()] == [
        ("[90]", ["expect_column_values_to_be_between(total)"])
    ]


def test_the_history_of_a_row_is_the_same_by_scalar_tuple_and_dict(lake: OpenLake) -> None:
    found = [lake.history_of("shop.orders", key).collect() for key in (1, (1,), {"id": 1}, "1")]

    assert [row.after.note for row in found[0]] == ["new", "paid", "shipped", "sent"]
    assert [row.changed for row in found[0]] == [None, ["note"], ["note", "sum"], ["note", "sum"]]
    assert found[1] == found[2] == found[3] == found[0]
    with pytest.raises(LakehouseError, match=r"shop\.orders: expected a key of id"):
        lake.history_of("shop.orders", (1, 2))


def test_a_timeline_has_the_statements_between_the_changes(lake: OpenLake) -> None:
    found = lake.timeline("shop.orders", 1)

    assert list(found["op"]) == ["insert", "update", "ddl", "update", "update"]
    assert found["text"][2].startswith("ALTER TABLE `shop`.`orders` ADD COLUMN `sum`")
    assert "sum" not in found["values"][1]
    assert str(found["values"][4]["sum"]) == "2.50"
    assert found["committed_at"].is_monotonic_increasing


def test_activity_counts_each_change_once_in_intervals_that_fit_the_time(lake: OpenLake) -> None:
    every, some = lake.activity(), lake.activity("shop.orders", since="2026-11-21 01:30", most=10)

    assert every["changes"].sum() == 58
    assert (every.attrs["per"], some.attrs["per"]) == ("minute", "10 minutes")
    assert set(some["table"]) == {"shop.orders"}
    assert some["changes"].sum() == lake.changes("shop.orders", "2026-11-21 01:29:59.999").count()


def test_bytes_of_dead_letters_are_given_only_where_they_are_asked_for(lake: OpenLake) -> None:
    plain, shown = lake.dead_letters(), lake.dead_letters(with_bytes=9).orderBy("offset")

    assert "begins_with" not in plain.columns
    assert [(row.code, row.open, bytes(row.begins_with)) for row in shown.collect()] == [
        ("json", True, b'{"type": '),
        ("json", True, b"\x00\x01 no JSO"),
    ]


def test_unknown_names_are_refused(lake: OpenLake) -> None:
    for read in (lake.table, lake.changes, lake.state, lake.key):
        with pytest.raises(LakehouseError, match=r"shop\.nothing: expected a gold table of .*, found none"):
            read("shop.nothing")
    with pytest.raises(LakehouseError, match="manifest 9: expected one of the 4 published ones"):
        lake.at_manifest(9)


def test_a_table_that_is_folded_in_jobs_has_the_same_rows(
    lake: OpenLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = sorted(map(tuple, lake.table_at("shop.orders", TOTALS).collect()))

    monkeypatch.setattr(limits, "GOLD_TABLE_CHANGES", 3)

    assert sorted(map(tuple, lake.table_at("shop.orders", TOTALS).collect())) == small


def test_a_lake_that_grows_is_seen_after_refresh(spark: Any, tmp_path: Path) -> None:
    feed = (
        TiCDC().ddl(1 << 18, "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9))").insert(2 << 18, id=1, a="x")
    )
    run_all(tmp_path, "canal", write_recording(tmp_path / "r.jsonl", feed.messages), {})
    lake = open_lake(str(tmp_path / "lake"))
    feed.insert(3 << 18, id=2, a="y")
    run_all(tmp_path, "canal", write_recording(tmp_path / "r.jsonl", feed.messages), {})

    assert (lake.table("d.t").count(), lake.refresh().table("d.t").count()) == (1, 2)


def test_a_difference_follows_a_table_through_a_rename_and_a_retyped_key(spark: Any, tmp_path: Path) -> None:
    types = {"change": "int", "a": "varchar(9)"}
    feed = TiCDC().ddl(1 << 18, "CREATE TABLE t (`change` INT PRIMARY KEY, a VARCHAR(9))")
    for number in (1, 2):
        row = {"change": number, "a": "x"}
        feed.row((1 + number) << 18, "INSERT", row, types=types, key=("change",))
    feed.ddl(5 << 18, "ALTER TABLE t MODIFY `change` VARCHAR(9)").ddl(6 << 18, "RENAME TABLE t TO u")
    types = {"change": "varchar(9)", "a": "varchar(9)"}
    new, old = {"change": "2", "a": "y"}, {"change": "2", "a": "x"}
    feed.row(7 << 18, "UPDATE", new, old, types=types, key=("change",), table="u")
    feed.put(8 << 18, {"type": "TIDB_WATERMARK", "table": "", "_tidb": {"watermarkTs": 8 << 18}})
    run_all(tmp_path, "ticdc-canal-json", write_recording(tmp_path / "r.jsonl", feed.messages), {})
    lake = open_lake(str(tmp_path / "lake"))

    rows = [tuple(row)[:3] for row in lake.diff("d.u", 4 << 18, None).collect()]

    assert rows == [("changed", "2", ["a"])]
    assert [row.change for row in lake.table_at("d.u", 4 << 18).orderBy("change").collect()] == [1, 2]
    assert [row.op for row in lake.history_of("d.u", "2").collect()] == ["insert", "update"]


def test_a_binlog_feed_is_read_at_the_time_of_its_commits(spark: Any, tmp_path: Path) -> None:
    feed = Debezium().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    for number, millis in enumerate((1_000, 2_000, 3_000), 1):
        feed.change(10 * number, "c", None, {"id": number, "a": number}, ts_ms=millis)
    recording = write_recording(tmp_path / "r.jsonl", feed.messages)
    try_recording(recording, "debezium", {}, str(tmp_path / "lake"), "eventual", quiet)
    lake = open_lake(str(tmp_path / "lake"))

    then = lake.table_at("d.t", "1970-01-01 00:00:02")

    assert sorted(row.id for row in then.collect()) == [1, 2]
    assert lake.state("d.t").upto_time is None
    assert [(row.change, row.id) for row in lake.diff("d.t", "1970-01-01 00:00:02.500", None).collect()] == [
        ("added", 3)
    ]


def test_rows_of_a_table_without_a_key_are_told_apart_by_all_of_their_values(
    spark: Any, tmp_path: Path
) -> None:
    feed = TiCDC().ddl(1 << 18, "CREATE TABLE t (a VARCHAR(9), b VARCHAR(9))")
    for at, kind, row in ((2, "INSERT", "x"), (3, "INSERT", "x"), (4, "INSERT", "y"), (5, "DELETE", "y")):
        feed.row(at << 18, kind, {"a": row, "b": "1"}, key=())
    feed.put(6 << 18, {"type": "TIDB_WATERMARK", "table": "", "_tidb": {"watermarkTs": 6 << 18}})
    run_all(tmp_path, "ticdc-canal-json", write_recording(tmp_path / "r.jsonl", feed.messages), {})
    lake = open_lake(str(tmp_path / "lake"))

    def found(one: int, other: int) -> list[tuple[str, Any, Any]]:
        rows = lake.diff("d.t", one << 18, other << 18).collect()
        return sorted((row.change, row.before and row.before.a, row.after and row.after.a) for row in rows)

    assert lake.key("d.t") == []
    assert found(2, 4) == [("added", None, "x"), ("added", None, "y")]
    assert found(4, 5) == [("removed", "y", None)]
    with pytest.raises(LakehouseError, match=r"d\.t: expected a table with a key"):
        lake.history_of("d.t", 1)
