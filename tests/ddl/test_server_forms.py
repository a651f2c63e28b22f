"""Forms that only one server accepts, or that only a producer writes: each says what its plain form says."""

import pytest

from lakehouse.ddl import edits as e
from lakehouse.ddl.apply.schema import create
from lakehouse.ddl.parse.statements import read
from lakehouse.ddl_effects import VERSIONED, Unknowable
from lakehouse.errors import DdlError
from lakehouse.schema import TableSchema
from tests.support.ddl_cases import alter


def table(sql: str) -> TableSchema:
    (statement,) = read(f"CREATE TABLE t {sql}")
    assert isinstance(statement, e.CreateTable)
    return create(statement)


def names(schema: TableSchema, key: tuple[int, ...]) -> list[str]:
    return [column.name for number in key for column in schema.columns if column.id == number]


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        # TiCDC's restored text has the charset before each string
        ("(a DATETIME) /*T![ttl] TTL=`a` + INTERVAL _UTF8MB4'1 2' DAY_HOUR */", "(a DATETIME)"),
        # MariaDB
        ("(a INT NOT NULL flag=6, b CHAR(9) `XPATH`='@')", "(a INT NOT NULL, b CHAR(9))"),
        ("(a VARCHAR(9) COMPRESSED BINARY, b TEXT COMPRESSED ASCII)", "(a VARCHAR(9), b TEXT ASCII)"),
        ("(v VECTOR(2), VECTOR(v) DISTANCE=cosine)", "(v VECTOR(2), VECTOR KEY (v))"),
        ("(a MARIADB_SCHEMA.TIMESTAMP)", "(a TIMESTAMP)"),
        (
            "(a INT) PARTITION BY RANGE (a) (p0 VALUES LESS THAN (1), PARTITION p1 VALUES LESS THAN (2))",
            "(a INT) PARTITION BY RANGE (a) "
            "(PARTITION p0 VALUES LESS THAN (1), PARTITION p1 VALUES LESS THAN (2))",
        ),
        (
            "(a INT) PARTITION BY KEY ALGORITHM = XXH32 (a) PARTITIONS 2",
            "(a INT) PARTITION BY KEY (a) PARTITIONS 2",
        ),
        # MySQL and TiDB
        (
            "(a INT) PARTITION BY LIST (d.t.a) (PARTITION p0 VALUES IN (1))",
            "(a INT) PARTITION BY LIST (a) (PARTITION p0 VALUES IN (1))",
        ),
        # Percona Server
        ("(a BLOB COLUMN_FORMAT COMPRESSED WITH COMPRESSION_DICTIONARY words)", "(a BLOB)"),
    ],
)
def test_a_create_table_says_what_its_plain_form_says(written: str, plain: str) -> None:
    assert table(written) == table(plain)


@pytest.mark.parametrize(
    ("restored", "written"),
    [
        (
            "ALTER TABLE `t` ADD COLUMN /*T! IF NOT EXISTS  */`a` INT",
            "ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT",
        ),
        (
            "ALTER TABLE `t` ADD UNIQUE INDEX/*T!  IF NOT EXISTS */ `i`(`a`)",
            "ALTER TABLE t ADD UNIQUE INDEX IF NOT EXISTS i (a)",
        ),
        (
            "CREATE UNIQUE INDEX /*T! IF NOT EXISTS */ `i` ON `t` (`a`)",
            "CREATE UNIQUE INDEX IF NOT EXISTS i ON t (a)",
        ),
        (
            "ALTER TABLE `t` ADD PARTITION/*T!  IF NOT EXISTS */ (PARTITION `p` VALUES LESS THAN (1))",
            "ALTER TABLE t ADD PARTITION IF NOT EXISTS (PARTITION p VALUES LESS THAN (1))",
        ),
        (
            "ALTER TABLE `t` ADD INDEX `i`(`a`) /*T![pre_split] PRE_SPLIT_REGIONS = (BY (1, 2),(3, 4)) */",
            "ALTER TABLE t ADD INDEX i (a)",
        ),
    ],
)
def test_a_comment_of_ticdc_says_what_its_words_say(restored: str, written: str) -> None:
    assert read(restored) == read(written)


@pytest.mark.parametrize(
    "sql",
    [
        "/*T![placement] ALTER PLACEMENT POLICY `p` FOLLOWERS = 4 */",
        "/*T![placement] DROP PLACEMENT POLICY IF EXISTS `p` */",
        "/*T![resource_group] ALTER RESOURCE GROUP `g` RU_PER_SEC = 5 */",
    ],
)
def test_a_comment_of_ticdc_that_is_a_whole_statement_is_about_no_table(sql: str) -> None:
    assert all(isinstance(statement, e.NoEffect) for statement in read(sql))


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE DEFINER = u@10.1.2.3 VIEW v AS SELECT 1",
        "CREATE DEFINER = u@db.example.com VIEW v AS SELECT 1",
        "CREATE COMPRESSION_DICTIONARY words ('a')",
        "DROP COMPRESSION_DICTIONARY IF EXISTS words",
        "DROP /*!40005 TEMPORARY */ /*!40005 TEMPORARY */ TABLE IF EXISTS `d`.`t`",
    ],
)
def test_a_statement_about_no_table_has_no_effect(sql: str) -> None:
    assert isinstance(read(sql)[0], e.NoEffect)


@pytest.mark.parametrize("clause", ["SECONDARY_LOAD PARTITION (p0, p1)", "ADD VECTOR(v)"])
def test_a_clause_that_touches_no_row_has_no_effect(clause: str) -> None:
    before = table("(a INT, v VECTOR(2))")
    (statement,) = read(f"ALTER TABLE t {clause}")
    assert isinstance(statement, e.AlterTable)

    following, effects = alter(before, statement.edits)

    assert (following.columns, following.handle_key, effects) == (before.columns, (), ())


def test_a_column_that_the_statement_has_dropped_is_not_there_for_a_condition() -> None:
    """As MariaDB has it; without the condition no server takes it."""
    (twice,) = read("ALTER TABLE t DROP COLUMN a, DROP COLUMN IF EXISTS A")
    assert isinstance(twice, e.AlterTable)

    following, _ = alter(table("(a INT, b INT)"), twice.edits)

    assert [column.name for column in following.columns] == ["b"]


def test_a_list_of_values_in_brackets_is_a_query() -> None:
    (statement,) = read("CREATE TABLE t (VALUES (1), (2))")

    assert isinstance(statement, e.CreateTable)
    assert statement.as_select


def test_a_word_that_only_some_servers_reserve_is_a_name() -> None:
    assert read("DROP TABLE option") == [e.DropTable(((None, "option"),))]


def test_a_time_literal_is_a_partitions_bound() -> None:
    schema = table("(a TIME) PARTITION BY RANGE COLUMNS (a) (PARTITION p0 VALUES LESS THAN (TIME'01:00:00'))")

    assert schema.partition is not None
    assert schema.partition.partitions == (("p0", ("TIME'01:00:00'",)),)


def test_an_attribute_of_an_engine_is_none_without_its_sign() -> None:
    with pytest.raises(DdlError, match=r"expected \), got 'flag'"):
        read("CREATE TABLE t (a INT flag 6)")


# --- periods, and system versioning


def test_a_key_without_overlaps_is_of_its_periods_columns_too() -> None:
    schema = table("(id INT, s DATE, e DATE, PERIOD FOR p (s, e), PRIMARY KEY (id, p WITHOUT OVERLAPS))")

    assert names(schema, schema.primary_key) == ["id", "s", "e"]


def test_the_columns_of_a_period_are_not_null() -> None:
    schema = table("(id INT, s DATE, e DATE, PERIOD FOR p (s, e))")

    assert [column.not_null for column in schema.columns] == [False, True, True]


@pytest.mark.parametrize("sql", ["(a INT) WITH SYSTEM VERSIONING", "(a INT WITH SYSTEM VERSIONING, b INT)"])
def test_a_table_is_created_with_its_history(sql: str) -> None:
    assert table(sql).versioned
    assert not table("(a INT)").versioned


@pytest.mark.parametrize(
    "clause", ["ADD SYSTEM VERSIONING", "WITH SYSTEM VERSIONING", "ENGINE = InnoDB WITH SYSTEM VERSIONING"]
)
def test_history_begins_and_ends_with_a_clause(clause: str) -> None:
    schema = table("(a INT)")

    (added,) = read(f"ALTER TABLE t {clause}")
    (dropped,) = read("ALTER TABLE t DROP SYSTEM VERSIONING")
    assert isinstance(added, e.AlterTable)
    assert isinstance(dropped, e.AlterTable)
    versioned, effects = alter(schema, added.edits)
    after, _ = alter(versioned, dropped.edits)

    assert (versioned.versioned, effects, after.versioned) == (True, (Unknowable(VERSIONED),), False)
