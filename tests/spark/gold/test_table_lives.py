"""A table that is dropped and created again, or of whose beginning something becomes known later, goes on in
the Delta table of its name: whoever reads it reads what the source has now.
"""

from pathlib import Path
from typing import Any

from lakehouse.config.load import load
from lakehouse.gold.options import GoldOptions
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.ddl_decisions import decide
from lakehouse.spark.operations.schemas import import_schema
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline.run import run
from tests.support.engine import TSO
from tests.support.feeds import TiCDC
from tests.support.lakes import in_order, quiet, shown, write_recording

CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `a` VARCHAR(20))"
OTHER = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `b` VARCHAR(20))"
Rows = list[dict[str, Any]]


class Shop:
    """A feed, and the lake that it is run into."""

    def __init__(self, spark: Any, folder: Path, **tables: str) -> None:
        self.spark, self.folder, self.feed, self.now = spark, folder, TiCDC(), 0
        self.lake = Lake(str(folder / "lake"))
        for kind in ("sources", "tables"):
            (folder / "configs" / kind).mkdir(parents=True)
        (folder / "configs/sources/s.yml").write_text(
            f"format: ticdc-canal-json\nrecording: {folder / 'r.jsonl'}\nlake: {self.lake.root}\n"
            "time_zone: UTC\ntables: auto\n"
        )
        for name, text in tables.items():
            (folder / f"configs/tables/d.{name}.yml").write_text(f"source: s\ngold: {text}\n")

    def at(self) -> int:
        self.now += 1
        return self.now << 18

    def does(self, *statements: str | dict[str, Any], table: str = "t") -> "Shop":
        """Statements, and rows that are inserted."""
        for one in statements:
            if isinstance(one, str):
                self.feed.ddl(self.at(), one, table=table)
            else:
                self.feed.row(self.at(), "INSERT", one, table=table)
        return self

    def runs(self) -> dict[str, TableEntry]:
        """All that was sent is run into the lake; the manifest's tables by their names in gold."""
        mark = self.at()
        self.feed.put(mark, {"type": "TIDB_WATERMARK", "isDdl": False, "_tidb": {"watermarkTs": mark}})
        return self.runs_again()

    def runs_again(self) -> dict[str, TableEntry]:
        write_recording(self.folder / "r.jsonl", self.feed.messages)
        run(load(self.folder / "configs"), ("bronze", "silver", "gold"), True, (), None, quiet)
        manifest = OpsLog(self.spark, self.lake, "s").load().last(Manifest)
        assert manifest is not None
        return {entry.gold: entry for entry in manifest.tables}

    def gold(self, name: str = "d__t") -> Rows:
        """The rows of a Delta table, as any reader of it has them."""
        rows = self.lake.read(self.spark, "gold", name).toArrow().to_pylist()
        return sorted(rows, key=repr)

    def shown(self, at: int | None = None) -> dict[str, Rows]:
        return shown(Path(self.lake.root), self.folder / "shown", at)


def test_a_table_that_is_dropped_and_created_again_goes_on_in_its_delta_table(
    spark: Any, tmp_path: Path
) -> None:
    shop = Shop(spark, tmp_path).does(CREATE, {"id": 1, "a": "x"})
    shop.runs()
    then = shop.now << 18

    retired = shop.does("DROP TABLE `t`").runs()
    assert (retired["d__t"].state, shop.gold(), shop.shown()) == ("retired", [{"id": 1, "a": "x"}], {})

    live = shop.does(OTHER, {"id": 2, "b": "y"}).runs()
    assert {name: entry.state for name, entry in live.items()} == {"d__t": "exact"}
    assert shop.gold() == [{"id": 2, "b": "y"}]
    assert shop.shown() == {"d.t": [{"id": 2, "b": "y"}]}

    # the same between two runs, and on from there
    shop.does("DROP TABLE `t`", CREATE, {"id": 3, "a": "z"}).runs()
    last = shop.does({"id": 4, "a": "z"}).runs()
    assert {name: entry.state for name, entry in last.items()} == {"d__t": "exact"}
    assert shop.gold() == [{"id": 3, "a": "z"}, {"id": 4, "a": "z"}]
    assert shop.shown(then) == {"d.t": [{"id": 1, "a": "x"}]}


def test_a_create_that_comes_late_and_an_imported_schema_leave_a_table_its_delta_table_and_its_id(
    spark: Any, tmp_path: Path
) -> None:
    shop, create = Shop(spark, tmp_path), 1 << 18
    shop.now = 2
    shop.does({"id": 1, "a": "x"}).does({"id": 1, "n": "5"}, table="u")
    first = shop.runs()
    shop.feed.ddl(create, CREATE.replace("VARCHAR(20)", "CHAR(3)"))
    import_schema(shop.lake.root, "s", "CREATE TABLE d.u (id INT PRIMARY KEY, n CHAR(5))", str(create))

    known = shop.does({"id": 2, "a": "y"}).runs()

    assert {gold: entry.lineage for gold, entry in known.items()} == {
        gold: entry.lineage for gold, entry in first.items()
    }
    assert set(known) == {"d__t", "d__u"}
    assert (shop.gold(), shop.gold("d__u")) == (
        [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}],
        [{"id": 1, "n": "5"}],
    )
    assert [entry.state for entry in known.values()] == ["exact", "exact"]
    assert not any(entry.notes for entry in known.values())


def test_tables_that_swap_their_names_swap_their_delta_tables(spark: Any, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path).does(CREATE, {"id": 1, "a": "old"})
    shop.does(OTHER.replace("`t`", "`_t_gho`"), {"id": 1, "b": "new"}, table="_t_gho").runs()

    swapped = shop.does("RENAME TABLE `t` TO `_t_del`, `_t_gho` TO `t`").does({"id": 2, "b": "new"}).runs()

    assert shop.gold() == [{"id": 1, "b": "new"}, {"id": 2, "b": "new"}]
    assert shop.gold("d___t_del") == [{"id": 1, "a": "old"}]
    assert {gold: (entry.table, entry.state) for gold, entry in swapped.items()} == {
        "d__t": ("t", "exact"),
        "d___t_del": ("_t_del", "exact"),
    }
    after = shop.does("DROP TABLE `_t_del`", table="_t_del").does({"id": 3, "b": "new"}).runs()
    assert {gold: entry.state for gold, entry in after.items()} == {"d__t": "exact", "d___t_del": "retired"}


def test_a_held_table_keeps_its_name_until_its_drop_is_decided(spark: Any, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path, t="{}\non_ddl: {drop_table: hold}").does(CREATE, {"id": 1, "a": "x"})
    shop.runs()

    held = shop.does(f"CREATE OR REPLACE {OTHER[7:]}", {"id": 2, "b": "y"}).runs()
    states = {name: (entry.state, entry.why) for name, entry in held.items()}
    rows, shown_then = shop.gold(), shop.shown(shop.now << 18)
    decide(shop.lake.root, "d.t", "approve", "agreed")
    approved = shop.runs_again()

    assert states == {"d__t": ("behind", "held by a DDL: on_ddl says hold for drop_table")}
    assert rows == [{"id": 1, "a": "x"}]
    assert shown_then == {"d.t": rows}
    assert {name: entry.state for name, entry in approved.items()} == {"d__t": "exact"}
    assert shop.gold() == [{"id": 2, "b": "y"}]


def test_a_dropped_table_that_is_to_be_kept_stays_under_another_name(spark: Any, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path, t="{on_drop: keep}").does(CREATE, {"id": 1, "a": "x"})
    shop.runs()
    for number, name in enumerate(("d__t_dropped", "d__t_dropped_2"), 2):
        before = shop.gold()
        now = shop.does("DROP TABLE `t`", CREATE, {"id": number, "a": "y"}).runs()
        assert (now[name].state, now[name].name, shop.gold(name)) == ("retired", "d.t", before)
        assert shop.gold() == [{"id": number, "a": "y"}]
        assert shop.shown() == {"d.t": [{"id": number, "a": "y"}]}
    last = shop.does({"id": 9, "a": "z"}).runs()
    assert {gold: entry.state for gold, entry in last.items()} == {
        "d__t": "exact",
        "d__t_dropped": "retired",
        "d__t_dropped_2": "retired",
    }
    assert shop.gold("d__t_dropped") == [{"id": 1, "a": "x"}]


def test_a_run_that_dies_before_its_manifest_is_done_again(spark: Any, tmp_path: Path) -> None:
    """The next one finds Delta tables that have gone on already, and copies what was published of them."""
    shop = Shop(spark, tmp_path, k="{on_drop: keep}")
    for table in "tk":
        shop.does(CREATE.replace("`t`", f"`{table}`"), {"id": 1, "a": "x"}, table=table)
    shop.runs()
    for table in "tk":
        shop.does(f"DROP TABLE `{table}`", CREATE.replace("`t`", f"`{table}`"), table=table)
        shop.does({"id": 2, "a": "y"}, table=table)
    whole = shop.runs()
    log = shop.lake.ref("ops", "s_log")
    (last,) = spark.sql(f"SELECT max(seq) FROM {log} WHERE kind = 'manifest'").first()
    spark.sql(f"DELETE FROM {log} WHERE seq = {last}")

    again = shop.runs_again()

    assert {gold: (entry.lineage, entry.state) for gold, entry in again.items()} == {
        gold: (entry.lineage, entry.state) for gold, entry in whole.items()
    }
    assert set(again) == {"d__t", "d__k", "d__k_dropped"}
    assert shop.gold("d__k_dropped") == [{"id": 1, "a": "x"}]
    assert shop.gold() == shop.gold("d__k") == [{"id": 2, "a": "y"}]


MODES = {"h": "{mode: history}", "l": "{mode: append}", "s": "{deletes: soft}"}
OPTIONS = {
    ("d", "h"): GoldOptions(mode="history"),
    ("d", "l"): GoldOptions(mode="append"),
    ("d", "s"): GoldOptions(deletes="soft"),
}


def test_a_log_goes_on_over_drop_and_create_run_by_run(spark: Any, tmp_path: Path) -> None:
    """Between DROP and CREATE the table is retired as it was; later changes are merged into what it has."""
    shop = Shop(spark, tmp_path, **MODES)
    steps: list[tuple[str | dict[str, Any], ...]] = [
        (CREATE, {"id": 1, "a": "x"}, {"id": 2, "a": "y"}),
        ("DROP TABLE `t`",),
        (OTHER, {"id": 1, "b": "x"}),
        ({"id": 3, "b": "z"},),
        ("DROP TABLE `t`", CREATE, {"id": 3, "a": "w"}),
    ]
    for step in steps:
        for table in MODES:
            shop.does(
                *(one.replace("`t`", f"`{table}`") if isinstance(one, str) else one for one in step),
                table=table,
            )
        entries = shop.runs()
        silver = shop.feed.memory
        assert shop.shown() == in_order(silver.tables(silver.watermark, OPTIONS, TSO))
        assert set(entries) == {f"d__{table}" for table in MODES}
        gone = step == ("DROP TABLE `t`",)
        assert {entry.state for entry in entries.values()} == {"retired" if gone else "exact"}
    assert sorted((row["id"], row["_op"]) for row in shop.gold("d__l")) == [
        *[(1, "delete"), (1, "delete"), (1, "insert"), (1, "insert")],
        *[(2, "delete"), (2, "insert")],
        *[(3, "delete"), (3, "insert"), (3, "insert")],
    ]
