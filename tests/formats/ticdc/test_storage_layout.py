"""Paths of the storage sink, and what belongs together (T61, T74, T110)."""

import json
from collections.abc import Iterable
from itertools import starmap
from typing import Any

import msgspec
import pytest

from lakehouse.errors import DecodeError
from lakehouse.formats.ticdc import storage_history
from lakehouse.formats.ticdc.storage_history import Version, facts_of
from lakehouse.formats.ticdc.storage_layout import (
    Checkpoint,
    DataFile,
    Index,
    Other,
    SchemaFile,
    classify,
    join_schemas,
    read_checkpoint,
    several_dispatchers,
)
from lakehouse.formats.ticdc.storage_schema import TableDefinition, read_definition

BY_ID = {"use-table-id-as-path": "true"}
YEAR = {"date-separator": "year"}
LONG = "1241606787879165134113600900959837933208"
FLAT = {"enable-partition-separator": "false"}


def data_file(path: str, options: dict[str, str] | None = None) -> tuple[object, ...]:
    """schema, table, table id, version, physical id, date, dispatcher, number of a path that is a
    data file.
    """
    file = classify(path, options or {})
    assert isinstance(file, DataFile), file
    return tuple(file[1:9])


@pytest.mark.parametrize(
    ("path", "options", "parts"),
    [
        ("s/t/400/CDC000001.json", {}, ("s", "t", None, 400, None, None, None, 1)),
        (
            "s/t/400/2026-11-21/CDC00000000000000000007.csv",
            {},
            ("s", "t", None, 400, None, "2026-11-21", None, 7),
        ),
        ("s/t/400/2026-11/CDC1234567.csv", {}, ("s", "t", None, 400, None, "2026-11", None, 1234567)),
        ("s/t/400/2026/CDC000001.csv", YEAR, ("s", "t", None, 400, None, "2026", None, 1)),
        ("s/t/400/2026/CDC000001.csv", {}, ("s", "t", None, 400, 2026, None, None, 1)),
        ("s/t/400/2026/CDC000001.csv", FLAT, ("s", "t", None, 400, None, "2026", None, 1)),
        ("s/t/400/127/CDC000001.csv", YEAR | {"quote": ""}, ("s", "t", None, 400, 127, None, None, 1)),
        ("s/t/400/127/2026/CDC000001.csv", {}, ("s", "t", None, 400, 127, "2026", None, 1)),
        ("s/t/400/127/2026-11-21/CDC000001.csv", {}, ("s", "t", None, 400, 127, "2026-11-21", None, 1)),
        ("s/t/400/CDC_" + LONG + "_000002.json", {}, ("s", "t", None, 400, None, None, LONG, 2)),
        ("112/400/2026-11-21/CDC000001.csv", BY_ID, (None, None, 112, 400, None, "2026-11-21", None, 1)),
        ("112/400/2026/CDC000001.csv", BY_ID, (None, None, 112, 400, None, "2026", None, 1)),
        ("2026/2026/2026/2026/2026/CDC000001.csv", {}, ("2026", "2026", None, 2026, 2026, "2026", None, 1)),
        ("meta/meta/400/CDC000001.csv", {}, ("meta", "meta", None, 400, None, None, None, 1)),
        (
            "Mixed Case/表名.a b/400/CDC000001.json",
            {},
            ("Mixed Case", "表名.a b", None, 400, None, None, None, 1),
        ),
    ],
)
def test_a_data_file_is_known_by_its_path(
    path: str, options: dict[str, str], parts: tuple[object, ...]
) -> None:
    assert data_file(path, options) == parts


@pytest.mark.parametrize(
    ("path", "options", "file"),
    [
        ("s/meta/schema_400_0123456789.json", {}, ("s", None, None, 400, "0123456789")),
        ("s/t/meta/schema_400_0123456789.json", {}, ("s", "t", None, 400, "0123456789")),
        ("s/meta/meta/schema_400_0123456789.json", {}, ("s", "meta", None, 400, "0123456789")),
        ("112/meta/schema_400_0123456789.json", BY_ID, (None, None, 112, 400, "0123456789")),
        ("s/t/400/schema.json", {}, ("s", "t", None, 400, None)),
    ],
)
def test_a_schema_file_is_known_by_its_path(
    path: str, options: dict[str, str], file: tuple[object, ...]
) -> None:
    assert classify(path, options) == SchemaFile(path, *file)  # type: ignore[arg-type]


def test_checkpoint_and_index_files_are_known_by_their_paths() -> None:
    assert classify("metadata", {}) == Checkpoint("metadata")
    assert classify("s/t/400/meta/CDC.index", {}) == Index("s/t/400/meta/CDC.index")
    assert classify("s/t/400/CDC.index", {}) == Index("s/t/400/CDC.index")
    assert classify("s/t/400/meta/CDC_77.index", {}) == Index("s/t/400/meta/CDC_77.index")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "s",
        "s/metadata",
        "s/t/400/CDC000001.json.tmp.123",
        "s/t/400/.CDC000001.json.x7Hq",
        "s/t/CDC000001.json",
        "CDC000001.json",
        "s/t/400/a/CDC000001.csv",
        "s/t/400/1/2/3/CDC000001.csv",
        "s/t/400/CDC.csv",
        "s/t/٤/CDC000001.csv",
        "s/t/u/400/CDC000001.csv",
        "s/t/400/CDC99999999999999999999.csv",
        "s/t/400/schema_1_2.json",
        "s/t/u/meta/schema_400_0123456789.json",
    ],
)
def test_every_other_path_is_other(path: str) -> None:
    assert isinstance(classify(path, {}), Other)


def test_the_checkpoint_is_read_or_refused() -> None:
    assert read_checkpoint(b'{"checkpoint-ts":470607110664880131}') == 470607110664880131
    for garbage in (
        b"",
        b'{"checkpoint-ts":4706',
        b'{"checkpoint-ts":"4"}',
        b"[]",
        b'{"checkpoint-ts":9223372036854775808}',
        b"\xff",
    ):
        with pytest.raises(DecodeError, match="metadata: expected") as error:
            read_checkpoint(garbage)
        assert error.value.code == "checkpoint"


# VIRTUAL columns


def version(table: str, query: str, *columns: str, schema: str = "d") -> Version:
    content = {
        "Query": query,
        "TableColumns": [{"ColumnName": name, "ColumnType": "INT"} for name in columns],
    }
    return Version(schema, table, read_definition(json.dumps(content).encode()))


def virtual_columns(history: Iterable[Version]) -> list[frozenset[str]]:
    return [facts.virtual for facts in facts_of(history)]


CREATE = (
    "CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY /*T![clustered_index] CLUSTERED */,`a` INT "
    "DEFAULT 1 COMMENT 'x`v` INT AS (1) VIRTUAL,',"
    "`v` INT GENERATED ALWAYS AS(`a`+1) VIRTUAL,`s` INT GENERATED ALWAYS AS(`a`*2) STORED,`e` "
    "ENUM('AS','v') DEFAULT _UTF8MB4'AS',"
    "INDEX `kv`(`v`),CONSTRAINT `a` CHECK((`a`>0)) ENFORCED) PARTITION BY RANGE (`id`) "
    "(PARTITION `v` VALUES LESS THAN (10))"
)
COLUMNS = ("id", "a", "v", "s", "e")


@pytest.mark.parametrize(
    ("query", "columns", "virtual"),
    [
        ("", COLUMNS, {"v"}),
        ("CREATE INDEX `i` ON `d`.`t` (`v`)", COLUMNS, {"v"}),
        (
            "ALTER TABLE `d`.`t` ADD COLUMN (`w` INT GENERATED ALWAYS AS(1) VIRTUAL, `x` SET('a'))",
            (*COLUMNS, "w", "x"),
            {"v", "w"},
        ),
        (
            "ALTER TABLE `d`.`t` MODIFY COLUMN `s` BIGINT AS (`a`), ADD COLUMN `x` INT AFTER `v`",
            (*COLUMNS, "x"),
            {"v", "s"},
        ),
        ("ALTER TABLE `d`.`t` RENAME COLUMN `v` TO `w`", ("id", "a", "w", "s", "e"), {"w"}),
        ("ALTER TABLE `d`.`t` RENAME COLUMN `V` TO `w`", ("id", "a", "w", "s", "e"), {"w"}),
        ("ALTER TABLE `d`.`t` RENAME COLUMN `v` TO `V`, COMMENT 'x'", COLUMNS, {"v"}),  # which TiDB leaves
        (
            "ALTER TABLE `d`.`t` ADD COLUMN `w` DATE GENERATED ALWAYS AS(DATE_ADD(_UTF8MB4'2024-01-01', "
            "INTERVAL `v` YEAR)) VIRTUAL",
            (*COLUMNS, "w"),
            {"v", "w"},
        ),
        (
            r"ALTER TABLE `d`.`t` ADD COLUMN `x` INT COMMENT 'C:\', ADD COLUMN `w` INT AS(`a`) COMMENT 'w'",
            (*COLUMNS, "x", "w"),
            {"v", "w"},
        ),
        (
            "ALTER TABLE `d`.`t` RENAME COLUMN `v` TO `a`, RENAME COLUMN `a` TO `v`",
            ("id", "v", "a", "s", "e"),
            {"a"},
        ),
        (
            "ALTER TABLE `d`.`t` CHANGE COLUMN `v` `w` INT GENERATED ALWAYS AS(`a`+1) VIRTUAL",
            ("id", "a", "w", "s", "e"),
            {"w"},
        ),
        ("ALTER TABLE `d`.`t` DROP COLUMN `v`", ("id", "a", "s", "e"), set()),
        ("ALTER TABLE `d`.`t` ALTER COLUMN `v` SET DEFAULT 1", COLUMNS, {"v"}),
    ],
)
def test_virtual_columns_are_read_out_of_the_statements(
    query: str, columns: tuple[str, ...], virtual: set[str]
) -> None:
    history = [version("t", CREATE, *COLUMNS), version("t", query, *columns)]

    assert virtual_columns(history) == [{"v"}, virtual]


@pytest.mark.parametrize(
    "query",
    [
        "RENAME TABLE `d`.`x` TO `d`.`y`, `d`.`t` TO `e`.`u`",
        "ALTER TABLE `d`.`t` RENAME AS `e`.`u`",
        "CREATE TABLE `e`.`u` LIKE `d`.`t`",
        "CREATE TABLE IF NOT EXISTS `u` LIKE `d`.`t`",
    ],
)
def test_virtual_columns_follow_a_table_to_its_new_name(query: str) -> None:
    history = [
        version("t", CREATE, *COLUMNS),
        version("u", query, *COLUMNS, schema="e"),
        version("u", "", *COLUMNS, schema="e"),
    ]

    assert virtual_columns(history) == [{"v"}] * 3


def test_virtual_columns_follow_tables_that_one_statement_renames_in_a_circle() -> None:
    history = [
        at(1, "t", CREATE, *COLUMNS),
        at(2, "u", "CREATE TABLE `d`.`u` (`id` INT PRIMARY KEY)", "id"),
        at(3, "t", "RENAME TABLE `d`.`u` TO `d`.`t`", "id"),
        at(3, "u", "RENAME TABLE `d`.`tmp` TO `d`.`u`", *COLUMNS),
        at(3, "tmp", "RENAME TABLE `d`.`t` TO `d`.`tmp`"),
    ]

    assert virtual_columns(history) == [{"v"}, set(), set(), {"v"}, set()]


def at(moment: int, table: str, query: str, *columns: str) -> Version:
    told = version(table, query, *columns)
    return told._replace(definition=msgspec.structs.replace(told.definition, table_version=moment))


def test_a_column_that_is_given_the_name_of_its_table_renames_no_table() -> None:
    history = [
        version("t", CREATE, *COLUMNS),
        version("t", "ALTER TABLE `d`.`t` RENAME COLUMN `e` TO `t`", *COLUMNS[:-1], "t"),
    ]

    assert virtual_columns(history) == [{"v"}] * 2


def test_a_column_dropped_and_added_again_is_what_it_became() -> None:
    history = [
        ("t", CREATE, *COLUMNS),
        ("t", "ALTER TABLE `d`.`t` DROP COLUMN `v`", "id", "a", "s", "e"),
        ("t", "ALTER TABLE `d`.`t` ADD COLUMN `v` INT", *COLUMNS),
    ]

    assert virtual_columns(starmap(version, history)) == [{"v"}, set(), set()]


def test_the_headers_of_a_data_file_are_its_schema_and_what_its_history_tells() -> None:
    create = json.dumps(
        {
            "TableVersion": 400,
            "Query": CREATE,
            "TableColumns": [{"ColumnName": n, "ColumnType": "INT"} for n in COLUMNS],
        }
    ).encode()
    index = create.replace(b"400", b"500").replace(CREATE.encode(), b"CREATE INDEX `i` ON `t` (`a`)")
    files = [
        ("s/t/meta/schema_500_1.json", index),
        ("s/t/meta/schema_400_1.json", create),
        ("s/t/meta/schema_600_1.json", b"{"),
        ("s/u/meta/schema_500_1.json", create),
    ]
    schemas = join_schemas(
        (file, data) for path, data in files if isinstance(file := classify(path, {}), SchemaFile)
    )

    def headers(path: str, dispatchers: int = 1) -> object:
        file = classify(path, {})
        assert isinstance(file, DataFile)
        return schemas.headers(file, dispatchers)

    assert headers("s/t/500/CDC000001.csv") == (("schema", index), ("virtual", b'["v"]'))
    assert headers("s/t/400/2026-11-21/CDC_7_000001.csv", 2) == (
        ("schema", create),
        ("virtual", b'["v"]'),
        ("dispatchers", b"2"),
    )
    assert headers("s/t/600/CDC000001.csv") is None
    assert headers("s/u/400/CDC000001.csv") is None, "the file of another version describes no rows"


def test_a_table_id_path_takes_its_history_from_the_names_in_its_schema_files() -> None:
    content = {
        "Schema": "d",
        "Table": "t",
        "TableVersion": 400,
        "Query": CREATE,
        "TableColumns": [{"ColumnName": "v", "ColumnType": "INT"}],
    }
    renamed = {**content, "Table": "u", "TableVersion": 500, "Query": "RENAME TABLE `d`.`t` TO `d`.`u`"}
    files = [("7/meta/schema_400_1.json", content), ("7/meta/schema_500_1.json", renamed)]
    schemas = join_schemas(
        (file, json.dumps(data).encode())
        for path, data in files
        if isinstance(file := classify(path, BY_ID), SchemaFile)
    )

    file = classify("7/500/CDC000001.csv", BY_ID)

    assert isinstance(file, DataFile)
    assert dict(schemas.headers(file) or ())["virtual"] == b'["v"]'


def test_only_renamed_tables_of_one_version_are_held_against_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All tables of a feed's beginning share a version: each compared with all others, in each turn anew,
    2,000 of them took a minute in every batch.
    """
    compared: list[str] = []
    held_against = storage_history._rank

    def rank(version: Version, *rest: Any) -> tuple[bool, ...]:
        compared.append(version.table)
        return held_against(version, *rest)

    monkeypatch.setattr(storage_history, "_rank", rank)
    content = b'{"TableVersion": 400, "TableColumns": [{"ColumnName": "a", "ColumnType": "INT"}]}'
    renames = (
        b'{"TableVersion": 400, "Query": "RENAME TABLE `d`.`a` TO `d`.`b`", "Type": 14, "TableColumns": []}'
    )
    history = [Version("d", f"t{number}", read_definition(content)) for number in range(50)]
    history.append(Version("d", "b", read_definition(renames)))

    assert [facts.name[1] for facts in facts_of(history)] == [version.table for version in history]
    assert compared == ["b"]


def test_a_selection_of_schema_files_gives_its_files_the_headers_that_all_of_them_give() -> None:
    def content(table: str, at: int, query: str, *names: str) -> bytes:
        told = [{"ColumnName": name, "ColumnType": "INT"} for name in names]
        held = {"Schema": "d", "Table": table, "TableVersion": at, "Query": query, "TableColumns": told}
        return json.dumps(held).encode()

    moved = "ALTER TABLE `d`.`t` MODIFY COLUMN `v` INT FIRST"
    told = {
        "7/meta/schema_400_1.json": content("t", 400, CREATE, "a", "v"),
        "7/meta/schema_500_1.json": content("t", 500, moved, "v", "a"),
        "7/meta/schema_600_2.json": content("u", 600, "RENAME TABLE `d`.`t` TO `d`.`u`", "v", "a"),
        "8/meta/schema_400_1.json": content("T", 400, CREATE.replace("`t`", "`T`"), "a"),
        "8/meta/schema_500_3.json": content("w", 500, "ALTER TABLE `d`.`w` EXCHANGE PARTITION", "a"),
        "8/meta/schema_500_4.json": content("x", 500, "ALTER TABLE `d`.`w` EXCHANGE PARTITION", "a"),
    }
    data = [f"{n}/{v}/CDC000001.{e}" for n in (7, 8) for v in (400, 500, 600) for e in ("csv", "json")]
    classified = [classify(path, BY_ID) for path in (*told, *data)]
    files = [file for file in classified if isinstance(file, DataFile | SchemaFile)]
    schemas = join_schemas((file, told[file.path]) for file in files if isinstance(file, SchemaFile))
    kinds = {name for file in files for name, _ in schemas.headers(file) or ()}
    assert kinds >= {"schema", "name", "orders", "sharers", "statements"}

    for file in files:
        assert schemas.of([file]).headers(file, 2) == schemas.headers(file, 2)
    assert len(schemas.of(files[:1]).known) == 1


def test_a_schema_file_that_is_none_is_refused() -> None:
    for garbage in (
        b"",
        b"[]",
        b'{"TableColumns": [{}]}',
        b'{"TableVersion": "x"}',
        b"\xff",
        b'{"Query": 1}',
    ):
        with pytest.raises(DecodeError, match="schema file: expected a JSON object"):
            read_definition(garbage)
    assert read_definition(b'{"ColumnLength": 1, "TableVersion": "12"}') == TableDefinition(table_version=12)


def test_dispatchers_are_those_that_had_written_when_a_file_landed() -> None:
    paths = ["d/t/1/CDC000001.csv", "d/t/1/CDC_a_000001.csv", "d/t/1/CDC000002.csv", "d/u/1/CDC_b_000001.csv"]
    landed = [(path, number) for number, path in enumerate(paths)]

    assert several_dispatchers(landed, landed, {}) == {1: 2, 2: 2}
    assert several_dispatchers(landed[2:], [landed[1], landed[0]], {}) == {2: 2}
