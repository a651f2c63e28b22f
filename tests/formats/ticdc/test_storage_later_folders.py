"""Rows that are sent again into the folder of a later schema.

After a restart, CheckOrWriteSchema of the classic architecture (6.5.3 to 8.5.7) finds no schema file of its
version, and takes the newest one of equal checksum, though it is later than the rows. The checksum depends
neither on the order of columns nor on the statement, which may have emptied the table.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.sources.storage_tree import read_tree
from tests.support.engine import Memory
from tests.support.sink_trees import schema_file
from tests.whole_path.test_eight_formats import write_tree

CSV = {"protocol": "csv", "include-commit-ts": "true"}
CREATE = "CREATE TABLE `k`.`t` (`id` INT,`a` INT,`b` INT,PRIMARY KEY(`id`))"
MOVED = "ALTER TABLE `k`.`t` MODIFY COLUMN `b` INT AFTER `id`"
SWAPPED = "ALTER TABLE `k`.`t` RENAME COLUMN `a` TO `b`, RENAME COLUMN `b` TO `a`"
CREATED = ("t", "k", "id", "a", "b")
LATER = ("t", "k", "id", "b", "a")


def tree(older: str, statement: str = MOVED) -> dict[str, bytes]:
    """A table whose columns `a` and `b` change places at 600, and `older` rows that come in a file behind."""
    return {
        "metadata": b'{"checkpoint-ts": 900}',
        "k/t/meta/schema_400_1.json": schema_file(400, CREATE, *CREATED),
        "k/t/meta/schema_600_1.json": schema_file(600, statement, *LATER),
        "k/t/400/CDC000001.csv": b'"I","t","k",500,1,10,11\r\n',
        "k/t/600/CDC000001.csv": b'"I","t","k",700,2,21,20\r\n',
        "k/t/600/CDC000002.csv": f"{older}\r\n".encode(),
    }


def memory(root: Path, files: dict[str, bytes]) -> Memory:
    write_tree(root, files)
    return Memory("ticdc-storage", CSV).add(read_tree(root, CSV))


def table(silver: Memory, at: int) -> list[dict[str, Any]]:
    return silver.tables((0, at, 2, 0, 0, 0))["k.t"]


def test_rows_older_than_their_folder_have_the_columns_of_their_own_schema(tmp_path: Path) -> None:
    files = tree('"U","t","k",550,1,12,13\r\n"I","t","k",560,3,30,31')
    silver = memory(tmp_path, files)

    assert silver.dead == []
    assert table(silver, 900) == [
        {"id": 1, "b": 13, "a": 12},
        {"id": 2, "b": 21, "a": 20},
        {"id": 3, "b": 31, "a": 30},
    ]


def test_a_row_that_comes_again_there_is_the_same_row(tmp_path: Path) -> None:
    silver = memory(tmp_path, tree('"I","t","k",500,1,10,11'))

    assert (silver.dead, len(silver.changes)) == ([], 2)


def test_columns_that_exchanged_their_names_keep_their_values(tmp_path: Path) -> None:
    silver = memory(tmp_path, tree('"I","t","k",560,3,30,31', SWAPPED))

    assert table(silver, 560)[-1] == {"id": 3, "a": 30, "b": 31}
    assert table(silver, 900)[-1] == {"id": 3, "b": 30, "a": 31}


@pytest.mark.parametrize("types", ["INT", "VARCHAR"])
def test_columns_of_other_types_are_read_by_their_own(types: str, tmp_path: Path) -> None:
    files = tree('"I","t","k",560,3,"x",31' if types == "VARCHAR" else '"I","t","k",560,3,30,31')
    for path in [path for path in files if "schema_" in path]:
        files[path] = files[path].replace(
            b'"a", "ColumnType": "INT"', f'"a", "ColumnType": "{types}"'.encode()
        )
    del files["k/t/400/CDC000001.csv"], files["k/t/600/CDC000001.csv"]
    silver = memory(tmp_path, files)

    assert silver.dead == []
    (change,) = silver.changes.values()
    assert change.after == {"id": 3, "a": "x" if types == "VARCHAR" else 30, "b": 31}


def test_where_no_schema_file_tells_their_order_rows_are_refused(tmp_path: Path) -> None:
    """A feed that begins again before the first statement that was written of the table."""
    files = tree('"I","t","k",560,3,30,31')
    del files["k/t/400/CDC000001.csv"], files["k/t/meta/schema_400_1.json"]
    silver = memory(tmp_path, files)

    assert [(letter.code, letter.database, letter.table) for letter in silver.dead] == [("columns", "k", "t")]
    assert len(silver.changes) == 1


def test_a_statement_that_moves_no_column_leaves_the_order_as_it_was(tmp_path: Path) -> None:
    files = tree('"I","t","k",560,3,31,30', "CREATE INDEX `i` ON `k`.`t` (`a`)")
    del files["k/t/400/CDC000001.csv"], files["k/t/meta/schema_400_1.json"]
    silver = memory(tmp_path, files)

    assert (silver.dead, [change.after for change in silver.changes.values()]) == (
        [],
        [{"id": 2, "b": 21, "a": 20}, {"id": 3, "b": 31, "a": 30}],
    )


# without commit ts

TRUNCATE = "TRUNCATE TABLE `k`.`t`"
JSON = {"protocol": "canal-json"}


def line(ms: int, id: int, op: str = "INSERT", **members: Any) -> bytes:
    """A row of canal-json without the extension, committed in that millisecond."""
    types = {"id": "int", "a": "int", "b": "int"}
    row = {"id": str(id), "a": str(id * 10), "b": None}
    body = {"id": 0, "database": "k", "table": "t", "pkNames": ["id"], "isDdl": False, "type": op, "es": ms}
    return json.dumps({**body, "mysqlType": types, "old": None, "data": [row], **members}).encode() + b"\r\n"


def at(ms: int) -> int:
    """A TSO of that millisecond."""
    return (ms << 18) + 5


def emptied(*statements: tuple[int, str], **files: bytes) -> dict[str, bytes]:
    """A table made at 400 ms, the statements, and files of rows by `folder_number`."""
    names = {name: name.removeprefix("f").split("_") for name in files}
    return {
        **{
            f"k/t/meta/schema_{at(ms)}_1.json": schema_file(at(ms), query, *CREATED)
            for ms, query in ((400, CREATE), *statements)
        },
        **{
            f"k/t/{at(int(folder))}/CDC00000{number}.json": files[name]
            for name, (folder, number) in names.items()
        },
    }


def ids(root: Path, files: dict[str, bytes]) -> list[int]:
    write_tree(root, files)
    silver = Memory("ticdc-storage", JSON, tidb=False).add(read_tree(root, JSON))
    assert silver.dead == []
    return sorted(row["id"] for row in silver.tables(silver.reach)["k.t"])


def test_a_row_of_before_a_truncate_stays_away_though_it_comes_again_behind_it(tmp_path: Path) -> None:
    files = emptied(
        (600, TRUNCATE),
        f400_1=line(500, 1) + line(510, 2),
        f600_1=line(500, 1) + line(510, 2),
        f600_2=line(700, 3),
    )
    assert ids(tmp_path, files) == [3]


def test_rows_of_between_two_statements_stand_between_them(tmp_path: Path) -> None:
    """A feed that begins again before both."""
    files = emptied(
        (600, TRUNCATE),
        (800, "CREATE INDEX `i` ON `k`.`t` (`a`)"),
        f400_1=line(500, 1),
        f600_1=line(700, 3),
        f800_1=line(500, 1) + line(520, 2),
        f800_2=line(900, 4),
    )
    assert ids(tmp_path, files) == [3, 4]


def test_rows_that_come_again_end_as_their_last_change_says(tmp_path: Path) -> None:
    files = emptied(
        (600, "CREATE INDEX `i` ON `k`.`t` (`a`)"),
        f400_1=line(500, 1) + line(510, 1, "DELETE"),
        f400_2=line(520, 2),
        f600_1=line(500, 1) + line(510, 1, "DELETE") + line(520, 2),
        f600_2=line(700, 2, "DELETE") + line(710, 3),
    )
    assert ids(tmp_path, files) == [3]


# rows newer than their folder


def newer(statements: str, rows: str, second: str) -> dict[str, bytes]:
    """A table whose statements lie in another folder than its rows and their schema: a writer finds no file
    of its version in that, and goes on in the folder of before.
    """
    return {
        "metadata": b'{"checkpoint-ts": 900}',
        f"{statements}/meta/schema_400_1.json": schema_file(400, CREATE.replace("`t`", "`T`"), *CREATED),
        f"{statements}/meta/schema_600_1.json": schema_file(600, MOVED, *LATER),
        f"{rows}/meta/schema_400_2.json": schema_file(400, "", "T", *CREATED[1:]),
        f"{rows}/400/CDC000001.csv": b'"I","T","k",500,1,10,11\r\n',
        f"{rows}/400/CDC000002.csv": f"{second}\r\n".encode(),
    }


@pytest.mark.parametrize("by_id", [False, True])
def test_rows_newer_than_their_folder_have_the_columns_of_the_last_statement(
    by_id: bool, tmp_path: Path
) -> None:
    options = {**CSV, "use-table-id-as-path": str(by_id).lower()}
    folders = ("100", "101") if by_id else ("k/t", "k/T")
    write_tree(tmp_path, newer(*folders, '"I","T","k",700,2,21,20'))
    silver = Memory("ticdc-storage", options).add(read_tree(tmp_path, options))

    assert silver.dead == []
    assert silver.tables((0, 900, 2, 0, 0, 0)) == {
        "k.T": [{"id": 1, "b": 11, "a": 10}, {"id": 2, "b": 21, "a": 20}]
    }


PLAIN = {"protocol": "csv"}


def found_without_commit_ts(root: Path, statement: str, folders: tuple[str, str]) -> Memory:
    """The same without commit ts, with another statement."""
    options = {**PLAIN, "use-table-id-as-path": str(folders[0].isdecimal()).lower()}
    files = newer(*folders, '"I","T","k",2,21,20')
    files[f"{folders[0]}/meta/schema_600_1.json"] = schema_file(600, statement, *CREATED)
    if statement == MOVED:
        files |= {f"{folders[0]}/meta/schema_600_1.json": schema_file(600, statement, *LATER)}
    files[f"{folders[1]}/400/CDC000001.csv"] = b'"I","T","k",1,10,11\r\n'
    write_tree(root, files)
    return Memory("ticdc-storage", options, tidb=False).add(read_tree(root, options))


@pytest.mark.parametrize(
    ("statement", "folders", "code"),
    [
        (MOVED, ("k/t", "k/T"), "columns"),
        (MOVED, ("100", "101"), "columns"),
        (TRUNCATE, ("k/t", "k/T"), "statements"),
        (CREATE.replace("`t`", "`T`"), ("k/t", "k/T"), "statements"),
        ("RENAME TABLE `k`.`x` TO `k`.`T`", ("k/t", "k/T"), "statements"),
        ("CREATE INDEX `i` ON `k`.`T` (`a`)", ("k/t", "k/T"), ""),
        (TRUNCATE, ("100", "101"), ""),
    ],
)
def test_without_commit_ts_rows_that_may_be_of_before_or_behind_are_refused(
    statement: str, folders: tuple[str, str], code: str, tmp_path: Path
) -> None:
    silver = found_without_commit_ts(tmp_path, statement, folders)

    assert {letter.code for letter in silver.dead} == ({code} if code else set())
    assert len(silver.changes) == (0 if code else 2)


@pytest.mark.parametrize("folders", [("100", "101"), ("k/t", "k/T")])
@pytest.mark.parametrize("protocol", ["csv", "canal-json"])
def test_without_commit_ts_rows_that_go_on_in_the_folder_of_before_an_add_and_a_drop_are_refused(
    protocol: str, folders: tuple[str, str], tmp_path: Path
) -> None:
    """The rows of between stand in a folder of their own, a later one."""
    options = {"protocol": protocol, "use-table-id-as-path": str(folders[0].isdecimal()).lower()}
    statements, rows = folders
    wide, alter = [*CREATED, "c"], "ALTER TABLE `k`.`T` %s COLUMN `c`"
    files = {
        "metadata": b'{"checkpoint-ts": 900}',
        f"{statements}/meta/schema_400_1.json": schema_file(400, CREATE.replace("`t`", "`T`"), *CREATED),
        f"{statements}/meta/schema_600_3.json": schema_file(600, f"{alter % 'ADD'} INT", *wide),
        f"{statements}/meta/schema_700_1.json": schema_file(700, alter % "DROP", *CREATED),
        f"{rows}/meta/schema_400_2.json": schema_file(400, "", "T", *CREATED[1:]),
        f"{rows}/meta/schema_600_4.json": schema_file(600, "", "T", *wide[1:]),
    }
    made = [(400, 1, "I", 10, ""), (600, 1, "U", 20, ",0"), (400, 2, "U", 30, "")]
    for version, number, op, a, more in made:
        row = f'"{op}","T","k",1,{a},11{more}\r\n'.encode()
        told = line(a, 1, {"I": "INSERT", "U": "UPDATE"}[op], table="T")
        end = "csv" if protocol == "csv" else "json"
        files[f"{rows}/{version}/CDC{number:06}.{end}"] = row if protocol == "csv" else told
    write_tree(tmp_path, files)

    silver = Memory("ticdc-storage", options, tidb=False).add(read_tree(tmp_path, options))

    assert [letter.code for letter in silver.dead] == ["statements"] * 2
    assert len(silver.changes) == 1
