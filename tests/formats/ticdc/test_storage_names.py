"""Tables whose statements and rows lie in folders that differ in case, as TiCDC's new architecture has it."""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.events import DDL
from lakehouse.sources.storage_tree import read_tree
from tests.support.engine import Memory
from tests.support.lakes import in_order
from tests.support.sink_trees import schema_file
from tests.whole_path.test_eight_formats import write_tree

CSV = {"protocol": "csv", "include-commit-ts": "true"}
CREATE = "CREATE TABLE `K`.`Mixed Case-Tbl` (`id` INT,`v` INT AS (`id`+1) VIRTUAL,`a` INT,PRIMARY KEY(`id`))"


def tables(root: Path, files: dict[str, bytes], options: dict[str, str] = CSV) -> dict[str, Any]:
    """The tables at the checkpoint."""
    write_tree(root, files)
    silver = Memory("ticdc-storage", options).add(read_tree(root, options))
    assert silver.dead == []
    return in_order(silver.tables(silver.watermark))


def tree(rows: str = "K/Mixed Case-Tbl") -> dict[str, bytes]:
    """A table with capitals: its CREATE and an ALTER in a folder in lower case, rows and their schema in
    another.
    """
    names, columns = ("mixed case-tbl", "k"), ("id", "v", "a")
    alter = "ALTER TABLE `k`.`mixed case-tbl` ADD COLUMN `b` INT"
    database, table = rows.split("/")
    return {
        "metadata": b'{"checkpoint-ts": 900}',
        "k/meta/schema_390_1.json": schema_file(390, "CREATE DATABASE `K`", "", "k"),
        "k/mixed case-tbl/meta/schema_400_1.json": schema_file(400, CREATE, *names, *columns),
        f"{rows}/meta/schema_400_1.json": schema_file(400, "", table, database, *columns),
        f"{rows}/400/CDC000001.csv": b'"I","Mixed Case-Tbl","K",500,1,10\r\n',
        "k/mixed case-tbl/meta/schema_600_2.json": schema_file(600, alter, *names, *columns, "b"),
        f"{rows}/meta/schema_600_2.json": schema_file(600, "", table, database, *columns, "b"),
        f"{rows}/600/CDC000001.csv": b'"I","Mixed Case-Tbl","K",700,2,20,21\r\n',
    }


ROWS = [{"id": 1, "a": 10, "b": None}, {"id": 2, "a": 20, "b": 21}]


@pytest.mark.parametrize("left_out", ["", "400_1", "600_2", "CDC"])
def test_a_table_with_capitals_is_one_table_though_its_statements_lie_in_lower_case(
    tmp_path: Path, left_out: str
) -> None:
    files = {
        path: data for path, data in tree().items() if not (left_out and left_out in path and "K/" in path)
    }

    expected = [] if left_out == "CDC" else ROWS
    assert tables(tmp_path, files) == {"K.Mixed Case-Tbl": expected}


def test_a_statement_whose_schema_is_not_written_takes_it_from_the_rows(tmp_path: Path) -> None:
    files = {path: data.replace(b"`K`.`Mixed", b"`Mixed") for path, data in tree().items()}

    assert tables(tmp_path, files) == {"K.Mixed Case-Tbl": ROWS}


def test_a_rename_and_a_snapshot_in_lower_case_are_of_the_table_with_capitals(tmp_path: Path) -> None:
    rename = "RENAME TABLE `k`.`mixed case-tbl` TO `k`.`Other`"
    columns = ("id", "v", "a", "b")
    files = {
        **tree(),
        "k/other/meta/schema_710_2.json": schema_file(710, rename, "other", "k", *columns),
        "k/other/meta/schema_720_2.json": schema_file(720, "", "other", "k", *columns),
        "K/Other/meta/schema_710_2.json": schema_file(710, "", "Other", "K", *columns),
        "K/Other/710/CDC000001.csv": b'"I","Other","K",730,3,30,31\r\n',
    }

    assert tables(tmp_path, files) == {"K.Other": [*ROWS, {"id": 3, "a": 30, "b": 31}]}


def test_a_table_made_like_another_has_the_name_that_its_statement_spells_before_it_has_rows(
    tmp_path: Path,
) -> None:
    like = "CREATE TABLE `k`.`Copy` LIKE `k`.`mixed case-tbl`"
    files = {
        **tree(),
        "k/copy/meta/schema_710_2.json": schema_file(710, like, "copy", "k", "id", "v", "a", "b"),
    }

    assert tables(tmp_path, files) == {"K.Copy": [], "K.Mixed Case-Tbl": ROWS}


@pytest.mark.parametrize("written", ["Orders", "orders", "ORDERS"])
def test_a_table_whose_rows_come_behind_its_first_statement_has_their_name_and_follows_its_statements(
    tmp_path: Path, written: str
) -> None:
    """Of a table that was there before the feed, whose folder with capitals comes a pass later."""
    silver, seen = Memory("ticdc-storage", CSV), set[str | None]()

    def land(files: dict[str, bytes]) -> dict[str, Any]:
        write_tree(tmp_path, files)
        fresh = [message for message in read_tree(tmp_path, CSV) if message.path not in seen]
        seen.update(message.path for message in fresh if message.path != "metadata")
        return silver.add(fresh).tables(silver.watermark)

    alter = f"ALTER TABLE `k`.`{written}` ADD COLUMN `b` INT"
    first = schema_file(500, alter, "orders", "k", "id", "a", "b")
    land({"k/orders/meta/schema_500_2.json": first, "metadata": b'{"checkpoint-ts": 500}'})
    land(
        {
            "k/Orders/meta/schema_500_3.json": schema_file(500, "", "Orders", "k", "id", "a", "b"),
            "k/Orders/500/CDC000001.csv": b'"I","Orders","k",600,1,10,11\r\n',
            "metadata": b'{"checkpoint-ts": 700}',
        }
    )
    drop = schema_file(800, "ALTER TABLE `k`.`orders` DROP COLUMN `a`", "orders", "k", "id", "b")

    found = land({"k/orders/meta/schema_800_4.json": drop, "metadata": b'{"checkpoint-ts": 900}'})

    assert found == {"k.Orders": [{"id": 1, "b": 11}]}


def test_a_table_made_after_one_that_differed_in_case_alone_is_another(tmp_path: Path) -> None:
    create = "CREATE TABLE `k`.`mixed case-tbl` (`id` INT,PRIMARY KEY(`id`))"
    names = ("mixed case-tbl", "k")
    files = {
        **tree(),
        "k/mixed case-tbl/meta/schema_710_2.json": schema_file(
            710, "DROP TABLE `k`.`Mixed Case-Tbl`", *names, "id", "v", "a", "b"
        ),
        "k/mixed case-tbl/meta/schema_720_3.json": schema_file(720, create, *names, "id"),
        "K/mixed case-tbl/meta/schema_720_3.json": schema_file(720, "", "mixed case-tbl", "K", "id"),
        "K/mixed case-tbl/720/CDC000001.csv": b'"I","mixed case-tbl","K",730,3\r\n',
    }

    assert tables(tmp_path, files) == {"K.mixed case-tbl": [{"id": 3}]}


def test_a_table_id_path_names_the_rows_as_they_do_themselves(tmp_path: Path) -> None:
    files = {
        "metadata": b'{"checkpoint-ts": 900}',
        "7/meta/schema_400_1.json": schema_file(400, CREATE, "mixed case-tbl", "k", "id", "v", "a"),
        "7/400/CDC000001.csv": b'"I","Mixed Case-Tbl","K",500,1,10\r\n',
    }

    assert tables(tmp_path, files, {**CSV, "use-table-id-as-path": "true"}) == {
        "K.Mixed Case-Tbl": [{"id": 1, "a": 10}]
    }


def test_the_watermark_is_the_checkpoints(tmp_path: Path) -> None:
    write_tree(tmp_path, tree())

    assert Memory("ticdc-storage", CSV).add(read_tree(tmp_path, CSV)).watermark == (0, 900, DDL, 0, 0, 0)


@pytest.mark.parametrize("is_named", [False, True])
def test_the_column_of_an_expression_index_is_no_column(tmp_path: Path, is_named: bool) -> None:
    """TiDB stores an expression as a hidden VIRTUAL column, which the schema file lists and, before July
    2026, the header names.
    """
    columns = ("id", "a", "_V$_by_half_0")
    head = (
        b"ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,ticdc-meta$commit-ts,id,a,_V$_by_half_0\r\n"
    )
    files = {
        "metadata": b'{"checkpoint-ts": 900}',
        "k/t/meta/schema_400_1.json": schema_file(400, "", "t", "k", *columns),
        "k/t/400/CDC000001.csv": (head if is_named else b"") + b'"I","t","k",500,1,10\r\n',
    }

    assert tables(tmp_path, files) == {"k.t": [{"id": 1, "a": 10}]}


@pytest.mark.parametrize(
    "header", ["", "ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,ticdc-meta$commit-ts,id,a\r\n"]
)
def test_rows_of_an_id_that_a_statement_gave_to_another_table_are_of_the_table_that_they_name(
    tmp_path: Path, header: str
) -> None:
    """EXCHANGE PARTITION swaps the ids of a table and a partition; the sink writes a schema file of either
    table below the table's old id.
    """
    part = (
        "CREATE TABLE `k`.`p` (`id` INT PRIMARY KEY,`a` INT) "
        "PARTITION BY RANGE(`id`) (PARTITION `q` VALUES LESS THAN (10))"
    )
    swap = "ALTER TABLE `k`.`p` EXCHANGE PARTITION `q` WITH TABLE `k`.`n`"
    columns = ("k", "id", "a")
    files = {
        "metadata": b'{"checkpoint-ts": 900}',
        "100/meta/schema_400_1.json": schema_file(400, part, "p", *columns),
        "200/meta/schema_400_2.json": schema_file(400, "CREATE TABLE `k`.`n` LIKE `k`.`p`", "n", *columns),
        "100/meta/schema_600_1.json": schema_file(600, swap, "p", *columns),
        "200/meta/schema_600_2.json": schema_file(600, "", "n", *columns),
        "200/meta/schema_600_1.json": schema_file(600, "", "p", *columns),
        "101/meta/schema_600_2.json": schema_file(600, "", "n", *columns),
        "200/600/CDC000001.csv": header.encode() + b'"I","p","k",700,3,30\r\n',
        "101/600/CDC000001.csv": header.encode() + b'"I","n","k",700,4,40\r\n',
    }

    found = tables(tmp_path, files, {**CSV, "use-table-id-as-path": "true"})

    assert found == {"k.p": [{"id": 3, "a": 30}], "k.n": [{"id": 4, "a": 40}]}
