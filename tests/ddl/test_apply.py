"""Statements applied to schemas: ids for life, keys, partition rules, and what happens to rows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.ddl import edits as e
from lakehouse.ddl.apply.generated_columns import recomputed_virtual
from lakehouse.ddl.apply.schema import alter_by_edit, create
from lakehouse.ddl.parse.statements import read
from lakehouse.ddl_effects import (
    Clear,
    Drop,
    Effect,
    Fill,
    Forget,
    NullsLost,
    Rekey,
    RemoveRows,
    Retype,
    Unknowable,
    UnknownFill,
)
from lakehouse.errors import DdlError
from lakehouse.schema import ColumnType, TableSchema, parse_type
from tests.support.ddl_cases import alter


def table(sql: str) -> TableSchema:
    (statement,) = read(sql)
    assert isinstance(statement, e.CreateTable)
    return create(statement)


def altered(schema: TableSchema, sql: str) -> tuple[TableSchema, tuple[Effect, ...]]:
    (statement,) = read(f"ALTER TABLE t {sql}")
    assert isinstance(statement, e.AlterTable)
    return alter(schema, statement.edits)


def shape(schema: TableSchema) -> list[tuple[int, str]]:
    return [(column.id, column.name) for column in schema.columns]


ABC = "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(10), c DATE)"


# --- ids


@st.composite
def alters(draw: st.DrawFn) -> list[tuple[str, str, str | None, str | None]]:
    """Clauses (word, column, new name, place) by *position* of the column, so that they fit whatever table
    there is.
    """
    words = draw(
        st.lists(st.sampled_from(["add", "drop", "rename", "change", "modify"]), min_size=1, max_size=5)
    )
    return [
        (
            word,
            draw(st.text("0123456789", min_size=1, max_size=3)),
            None,
            draw(st.sampled_from([None, "first", "after"])),
        )
        for word in words
    ]


class Model:
    """The table as a list of (id, name): what a person would do by hand."""

    def __init__(self, schema: TableSchema) -> None:
        self.columns = shape(schema)
        self.next_id = schema.next_id
        self.fresh = 0

    def alter(self, clauses: list[tuple[str, str, str | None, str | None]]) -> str:
        """Turn clauses into SQL over columns not yet used in the statement, and do the same to the list."""
        free = list(self.columns[1:])
        changes: dict[int, tuple[str, str, str | None]] = {}
        renamed: list[tuple[int, str]] = []
        adds: list[tuple[str, str | None]] = []
        order: list[int | str] = []
        for word, number, _, place in clauses:
            if word == "add" or not free:
                self.fresh += 1
                adds.append((f"n{self.fresh}", place))
                order.append(f"n{self.fresh}")
                continue
            column = free.pop(int(number) % len(free))
            changes[column[0]] = (word, column[1], place if word in ("change", "modify") else None)
            order.append(column[0])
            if word in ("rename", "change"):
                renamed.append(column)
        # new names: those that renamed columns had, turned by one place, which swaps two; one alone gets a
        # fresh one
        names = [name for _, name in renamed[1:] + renamed[:1]]
        if len(renamed) == 1:
            self.fresh += 1
            names = [f"n{self.fresh}"]
        new_names = {column_id: name for (column_id, _), name in zip(renamed, names, strict=True)}
        return self._apply(changes, new_names, dict(adds), order)

    def _apply(
        self,
        changes: dict[int, tuple[str, str, str | None]],
        new_names: dict[int, str],
        adds: dict[str, str | None],
        order: list[int | str],
    ) -> str:
        staying = [
            (i, new_names.get(i, name))
            for i, name in self.columns
            if i not in changes or (changes[i][0] != "drop" and changes[i][2] is None)
        ]
        clauses = []
        for item in order:
            if isinstance(item, str):
                place, entry = adds[item], (self.next_id, item)
                self.next_id += 1
                text = f"ADD COLUMN `{item}` INT"
            else:
                word, old, place = changes[item]
                entry = (item, new_names.get(item, old))
                text = {
                    "drop": f"DROP COLUMN `{old}`",
                    "rename": f"RENAME COLUMN `{old}` TO `{entry[1]}`",
                    "change": f"CHANGE `{old}` `{entry[1]}` BIGINT",
                    "modify": f"MODIFY `{old.upper()}` BIGINT",
                }[word]
                if word == "modify":
                    entry = (item, old.upper())
                    staying = [(i, name.upper()) if i == item else (i, name) for i, name in staying]
                if word in ("drop", "rename") or place is None:
                    clauses.append(text)
                    continue
            if place == "first":
                staying.insert(0, entry)
                text += " FIRST"
            elif place == "after":
                anchor = staying[len(staying) // 2]
                staying.insert(len(staying) // 2 + 1, entry)
                text += f" AFTER `{anchor[1]}`"
            else:
                staying.append(entry)
            clauses.append(text)
        self.columns = staying
        return ", ".join(clauses)


@settings(max_examples=150, deadline=None)
@given(st.lists(alters(), min_size=1, max_size=6))
def test_ids_names_and_order_follow_every_sequence_of_alters(
    program: list[list[tuple[str, str, str | None, str | None]]],
) -> None:
    schema = table("CREATE TABLE t (k INT PRIMARY KEY, a INT, b INT, c INT, d INT)")
    model = Model(schema)
    ids = {column.id for column in schema.columns}
    for clauses in program:
        before = {column.id for column in schema.columns}

        schema, effects = altered(schema, model.alter(clauses))

        after = {column.id for column in schema.columns}
        assert shape(schema) == model.columns
        assert schema.next_id == model.next_id
        assert not (after - before) & ids, "an id is never given twice"
        assert {effect.column_id for effect in effects if isinstance(effect, Drop)} == before - after
        assert {effect.column_id for effect in effects if isinstance(effect, Fill)} == after - before
        ids |= after


def test_t53_a_name_that_is_freed_and_added_again_is_another_column() -> None:
    schema, _ = altered(table(ABC), "RENAME COLUMN b TO old")
    schema, effects = altered(schema, "ADD b VARCHAR(10) AFTER old")

    assert shape(schema) == [(1, "a"), (2, "old"), (4, "b"), (3, "c")]
    assert effects == (Fill(4, None, ColumnType("varchar", 10)),)


def test_t54_dropped_and_added_again_in_one_statement_is_another_column() -> None:
    schema, effects = altered(table(ABC), "DROP b, ADD b BIGINT")

    assert shape(schema) == [(1, "a"), (3, "c"), (4, "b")]
    assert effects == (Drop(2), Fill(4, None, ColumnType("bigint")))


@pytest.mark.parametrize(
    "sql", ["RENAME COLUMN b TO c, RENAME COLUMN c TO b", "CHANGE b c VARCHAR(10), CHANGE c b DATE"]
)
def test_t55_two_names_are_swapped_by_one_statement(sql: str) -> None:
    schema, effects = altered(table(ABC), sql)

    assert shape(schema) == [(1, "a"), (2, "c"), (3, "b")]
    assert effects == ()


def test_t56_first_and_after_move_a_column_without_touching_rows() -> None:
    schema, effects = altered(table(ABC), "MODIFY c DATE FIRST, ADD d INT AFTER c")

    assert shape(schema) == [(3, "c"), (4, "d"), (1, "a"), (2, "b")]
    assert effects == (Fill(4, None, ColumnType("int")),)


def test_t78_a_rename_in_case_alone_keeps_the_column() -> None:
    schema, effects = altered(table(ABC), "CHANGE b B VARCHAR(10), RENAME COLUMN A TO `A`")

    assert shape(schema) == [(1, "A"), (2, "B"), (3, "c")]
    assert effects == ()


# --- conditions and refusals


def test_an_edit_whose_condition_is_false_has_no_effect() -> None:
    schema = table(ABC)

    sql = (
        "ADD COLUMN IF NOT EXISTS B INT, DROP COLUMN IF EXISTS x, MODIFY COLUMN IF EXISTS x INT, "
        "CHANGE COLUMN IF EXISTS x y INT,"
        " RENAME COLUMN IF EXISTS x TO y, ALTER COLUMN IF EXISTS x SET DEFAULT 1, ADD PRIMARY KEY "
        "IF NOT EXISTS (b)"
    )

    assert altered(schema, sql) == (schema, ())


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("DROP x", "column x: expected a column of the table, got none of that name"),
        ("MODIFY x INT", "column x: expected a column of the table, got none of that name"),
        ("ADD B INT", "column B: expected one column of that name, got two"),
        ("ADD x INT AFTER y", "AFTER y: expected a column of the table, got none of that name"),
        (
            "CHANGE b x INT, ADD y INT AFTER b",
            "AFTER b: expected a column of the table, got none of that name",
        ),
        (
            "MODIFY b INT, MODIFY b BIGINT",
            "column b: expected one clause of the statement to change it, got two",
        ),
        ("ADD PRIMARY KEY (b)", "primary key: expected none before another is added, got one"),
        ("ADD UNIQUE (x)", "key column x: expected a column of the table, got none of that name"),
        ("DROP a, DROP b, DROP c", "table: expected at least one column to stay, got none"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(sql: str, error: str) -> None:
    with pytest.raises(DdlError) as caught:
        altered(table(ABC), sql)

    assert str(caught.value) == error


def test_a_table_from_a_query_has_no_schema_of_its_own() -> None:
    with pytest.raises(DdlError, match="got a query that adds its own"):
        table("CREATE TABLE t (a INT) SELECT 1 AS b")


# --- keys


def test_columns_of_a_primary_key_are_not_null_and_stay_so_without_it() -> None:
    schema = table("CREATE TABLE t (a INT, b INT, PRIMARY KEY (b))")
    schema, _ = altered(schema, "MODIFY b BIGINT")
    assert [column.not_null for column in schema.columns] == [False, True]

    schema, effects = altered(schema, "DROP PRIMARY KEY")

    assert [column.not_null for column in schema.columns] == [False, True]
    assert effects == (Rekey((2,), ()),)


def test_t45_a_changed_primary_key_says_old_and_new_columns() -> None:
    schema, effects = altered(
        table(ABC), "DROP PRIMARY KEY, CHANGE b bb VARCHAR(10), ADD PRIMARY KEY (a, bb)"
    )

    assert schema.primary_key == (1, 2)
    assert effects == (
        Retype(2, ColumnType("varchar", 10), ColumnType("varchar", 10), not_null=True),
        Rekey((1,), (1, 2)),
    )


def test_of_several_unique_keys_the_handle_is_the_shortest_and_then_the_oldest() -> None:
    schema = table(
        "CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, c INT NOT NULL, d INT, UNIQUE (a, b), "
        "UNIQUE (d), UNIQUE (c), UNIQUE (b))"
    )

    assert schema.handle_key == (3,)


def test_t46_a_primary_key_takes_over_from_a_unique_key() -> None:
    schema = table("CREATE TABLE t (a INT, b INT NOT NULL, UNIQUE (a), UNIQUE (b))")
    assert schema.handle_key == (2,)

    schema, effects = altered(schema, "ADD PRIMARY KEY (a)")

    assert effects == (Retype(1, ColumnType("int"), ColumnType("int"), not_null=True), Rekey((2,), (1,)))
    assert schema.unique_keys == ((1,), (2,))


def test_modify_without_not_null_ends_a_unique_key_as_identity() -> None:
    schema = table("CREATE TABLE t (a INT NOT NULL UNIQUE, b INT)")

    schema, effects = altered(schema, "MODIFY a INT")

    assert (schema.unique_keys, schema.handle_key) == (((1,),), ())
    assert effects == (Rekey((1,), ()),)


def test_a_dropped_column_leaves_its_keys_and_takes_the_empty_ones_along() -> None:
    schema = table(
        "CREATE TABLE t (a INT, b INT, c INT, PRIMARY KEY (a, b), UNIQUE u (b, c), UNIQUE v (b), KEY w (b))"
    )

    schema, effects = altered(schema, "DROP b")

    assert (schema.primary_key, schema.unique_keys) == ((1,), ((3,),))
    assert [index.name for index in schema.indexes] == ["u"]
    assert effects == (Drop(2), Rekey((1, 2), (1,)))


def test_unnamed_keys_have_the_names_that_mysql_gives_them() -> None:
    schema = table("CREATE TABLE t (a INT UNIQUE, b INT, KEY a_2 (b), UNIQUE (a, b), UNIQUE (b))")
    assert [index.name for index in schema.indexes] == ["a", "a_2", "a_3", "b"]

    schema, _ = altered(schema, "ADD UNIQUE (a), DROP INDEX a_3, RENAME INDEX b TO a_3")

    assert [(index.name, index.columns) for index in schema.indexes] == [
        ("a", (1,)),
        ("a_2", (2,)),
        ("a_3", (2,)),
        ("a_4", (1,)),
    ]
    assert schema.unique_keys == ((1,), (2,), (1,))


def test_index_statements_change_keys_too() -> None:
    schema = table(ABC)
    for sql in ("CREATE UNIQUE INDEX u ON t (b)", "DROP INDEX `PRIMARY` ON t", "CREATE INDEX i ON t (c)"):
        (statement,) = read(sql)
        assert isinstance(statement, e.AlterTable)
        schema, _ = alter(schema, statement.edits)

    assert (schema.primary_key, schema.unique_keys) == ((), ((2,),))


def test_an_inferred_schema_takes_indexes_over_columns_that_messages_never_showed() -> None:
    schema = TableSchema(table(ABC).columns, inferred=True, next_id=4)

    following, effects = altered(schema, "ADD INDEX i (virtual), DROP PRIMARY KEY, ADD UNIQUE u (virtual, b)")

    assert (following.unique_keys, effects) == ((), ())


# --- rows


@pytest.mark.parametrize(
    ("sql", "fill"),
    [
        ("ADD x INT", Fill(4, None, ColumnType("int"))),
        ("ADD x INT NOT NULL", Fill(4, None, ColumnType("int"), True)),
        (
            "ADD x VARCHAR(9) NOT NULL DEFAULT _utf8mb4'a' 'b'",
            Fill(4, "_utf8mb4'a' 'b'", ColumnType("varchar", 9), True),
        ),
        ("ADD x DECIMAL(5,2) DEFAULT -.5", Fill(4, "-.5", ColumnType("decimal", 5, 2))),
        ("ADD x BINARY(2) DEFAULT x'4142'", Fill(4, "x'4142'", ColumnType("binary", 2))),
        ("ADD x BIT(3) DEFAULT b'101'", Fill(4, "b'101'", ColumnType("bit", 3))),
        ("ADD x TEXT DEFAULT ('a')", Fill(4, "('a')", ColumnType("text"))),
        ("ADD x TINYINT(1) DEFAULT TRUE", Fill(4, "TRUE", ColumnType("tinyint", 1))),
        (
            "ADD x DATETIME DEFAULT '2020-01-01 00:00:00'",
            Fill(4, "'2020-01-01 00:00:00'", ColumnType("datetime")),
        ),
        (
            "ADD x TIMESTAMP DEFAULT '0000-00-00 00:00:00'",
            Fill(4, "'0000-00-00 00:00:00'", ColumnType("timestamp")),
        ),
    ],
)
def test_t59_a_new_column_is_filled_by_its_literal_default(sql: str, fill: Fill) -> None:
    assert altered(table(ABC), sql)[1] == (fill,)


@pytest.mark.parametrize(
    "definition",
    [
        "DATETIME DEFAULT CURRENT_TIMESTAMP",
        "TIMESTAMP(3) NULL DEFAULT NOW(3)",
        "TIMESTAMP DEFAULT '2020-01-01 00:00:00'",
        "CHAR(36) DEFAULT (UUID())",
        "DOUBLE DEFAULT (RAND() * 2)",
        "INT DEFAULT (1) + 1",
        "INT DEFAULT NEXT VALUE FOR s",
        "BIGINT NOT NULL AUTO_INCREMENT UNIQUE",
        "INT AS (a + 1) STORED",
    ],
)
def test_a_fill_that_the_source_computes_is_unknowable_beside_the_fill(definition: str) -> None:
    if definition == "INT DEFAULT (1) + 1":
        with pytest.raises(DdlError, match="got '\\+'"):
            altered(table(ABC), f"ADD x {definition}")
        return

    effects = altered(table(ABC), f"ADD x {definition}")[1]

    assert [type(effect) for effect in effects[:2]] == [UnknownFill, Fill]
    assert isinstance(effects[0], UnknownFill)
    assert effects[0].problem.startswith("column x: ")


def test_t61_a_virtual_column_fills_and_drops_nothing() -> None:
    schema, effects = altered(table(ABC), "ADD v INT GENERATED ALWAYS AS (`a` + 1)")
    assert (effects, schema.columns[3].expression) == ((), "`a` + 1")

    assert altered(schema, "DROP v")[1] == ()


@pytest.mark.parametrize(
    ("sql", "forgotten"),
    [
        ("ADD w INT AS (a + 1) VIRTUAL", [5]),
        ("ADD w INT", []),
        ("RENAME COLUMN b TO e", []),
        ("RENAME COLUMN b TO c, RENAME COLUMN c TO b", []),
        ("MODIFY b VARCHAR(4)", [4]),
        ("MODIFY c DATETIME", []),
        ("MODIFY v VARCHAR(11) AS (concat(b, '?'))", [4]),
        ("MODIFY v VARCHAR(11) AS ( concat(b,'!') ) FIRST", []),
        ("DROP v, MODIFY b TEXT", []),
    ],
)
def test_rows_that_carry_virtual_columns_lack_what_the_source_computes(
    sql: str, forgotten: list[int]
) -> None:
    schema = table(
        "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(10), c DATE, v VARCHAR(11) AS (concat(b, '!')))"
    )
    following, effects = altered(schema, sql)

    found = recomputed_virtual(schema, following, effects)

    assert [effect.column_id for effect in found if isinstance(effect, Forget)] == forgotten
    assert sum(isinstance(effect, Unknowable) for effect in found) == len(forgotten)


def test_t60_default_nullability_comment_and_place_touch_no_row_but_nulls_that_may_be_no_more() -> None:
    schema, effects = altered(
        table(ABC),
        "ALTER c SET DEFAULT '2020-01-01', MODIFY b VARCHAR(10) NOT NULL DEFAULT 'x' COMMENT 'y' FIRST",
    )

    kind = ColumnType("varchar", 10)
    assert effects == (NullsLost(2, "b", kind), Retype(2, kind, kind, not_null=True))
    assert altered(schema, "MODIFY b VARCHAR(10) NULL")[1] == ()
    assert [(column.default, column.not_null) for column in schema.columns] == [
        ("'x'", True),
        (None, True),
        ("'2020-01-01'", False),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("INT", "BIGINT"),
        ("INT", "INT UNSIGNED"),
        ("VARCHAR(10)", "VARCHAR(5)"),
        ("ENUM('a','b')", "ENUM('b','a')"),
        ("DATETIME(6)", "DATETIME"),
        ("DECIMAL(10,2)", "DECIMAL(10,3)"),
    ],
)
def test_t57_t58_a_new_type_is_said_with_the_old_one(old: str, new: str) -> None:
    schema = table(f"CREATE TABLE t (a INT, b {old})")

    assert altered(schema, f"MODIFY b {new}")[1] == (
        Retype(2, parse_type(old.lower()), parse_type(new.lower())),
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("INT(11)", "INT"),
        ("YEAR(4)", "YEAR"),
        ("NUMERIC(5)", "DECIMAL(5,0)"),
        ("INTEGER", "INT4"),
        ("TEXT(100)", "TEXT"),
    ],
)
def test_two_spellings_of_a_type_are_one(old: str, new: str) -> None:
    assert altered(table(f"CREATE TABLE t (a INT, b {old})"), f"MODIFY b {new}")[1] == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("TIMESTAMP", "DATETIME"),
        ("DATETIME", "TIMESTAMP(3)"),
        ("TIMESTAMP", "VARCHAR(30)"),
        ("TIME", "DATETIME"),
    ],
)
def test_a_type_that_a_session_decides_is_unknowable_beside_the_change(old: str, new: str) -> None:
    effects = altered(table(f"CREATE TABLE t (a INT, b {old})"), f"MODIFY b {new}")[1]

    assert [type(effect) for effect in effects] == [Retype, Unknowable]


def test_a_generated_column_that_is_computed_anew_is_unknowable() -> None:
    schema = table("CREATE TABLE t (a INT, g INT AS (a + 1) STORED)")

    assert altered(schema, "MODIFY g INT AS (a+1) STORED")[1] == ()
    assert altered(schema, "MODIFY g INT")[1] == ()
    assert altered(schema, "MODIFY g INT AS (a + 2) STORED")[1] == (
        Forget(2),
        Unknowable("column g: the source computes its values for existing rows"),
    )


def test_the_default_charset_reaches_columns_that_name_none() -> None:
    schema = table(
        "CREATE TABLE t (a VARCHAR(5), b VARCHAR(5) CHARACTER SET gbk, c VARCHAR(5) COLLATE "
        "utf8mb4_bin, d INT) CHARSET=latin1"
    )
    assert [column.type.charset for column in schema.columns] == ["latin1", "gbk", "utf8mb4", None]

    schema, effects = altered(schema, "DEFAULT CHARSET=binary, ADD e TEXT")
    assert (schema.columns[4].type, effects[0]) == (ColumnType("blob"), Fill(5, None, ColumnType("blob")))

    schema, effects = altered(schema, "CONVERT TO CHARACTER SET gbk")
    assert [column.type.charset for column in schema.columns] == ["gbk", "gbk", "gbk", None, None]
    assert [effect.column_id for effect in effects if isinstance(effect, Retype)] == [1, 3]


def test_effects_are_told_edit_by_edit() -> None:
    schema = table(ABC)
    (statement,) = read("ALTER TABLE t DROP b, ADD COLUMN IF NOT EXISTS c INT, ADD d INT, COMMENT 'x'")
    assert isinstance(statement, e.AlterTable)

    _, steps = alter_by_edit(schema, statement.edits)

    assert [(type(edit).__name__, len(effects)) for edit, effects in steps] == [
        ("DropColumn", 1),
        ("AddColumn", 1),
        ("NoEffect", 0),
    ]


# --- partitions

RANGE = (
    "CREATE TABLE t (a INT, b DATE) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10),"
    " PARTITION p1 VALUES LESS THAN (20), PARTITION pm VALUES LESS THAN MAXVALUE)"
)


def test_t39_a_partition_of_a_known_rule_takes_its_rows_along() -> None:
    schema = table(RANGE)
    rule = schema.partition
    assert rule is not None

    following, effects = altered(schema, "DROP PARTITION P1")

    assert effects == (RemoveRows(rule, ("p1",)),)
    assert following.partition is not None
    assert following.partition.partitions == (("p0", ("10",)), ("pm", (None,)))
    assert altered(schema, "TRUNCATE PARTITION p0, pm") == (schema, (RemoveRows(rule, ("p0", "pm")),))
    assert altered(schema, "TRUNCATE PARTITION ALL") == (schema, (Clear(),))


def test_a_rule_follows_renames_and_partition_clauses_and_names_ids() -> None:
    schema, _ = altered(table(RANGE), "CHANGE a z INT FIRST")
    schema, _ = altered(
        schema,
        (
            "REORGANIZE PARTITION p1, pm INTO (PARTITION q VALUES LESS THAN (30), PARTITION r VALUES "
            "LESS THAN (40))"
        ),
    )
    schema, _ = altered(schema, "ADD PARTITION (PARTITION s VALUES LESS THAN (50))")

    assert schema.partition is not None
    assert schema.partition.columns == (1,)
    assert schema.partition.partitions == (("p0", ("10",)), ("q", ("30",)), ("r", ("40",)), ("s", ("50",)))
    assert altered(schema, "REMOVE PARTITIONING")[0].partition is None


@pytest.mark.parametrize(
    ("create_sql", "sql"),
    [
        ("CREATE TABLE t (a INT)", "DROP PARTITION p0"),
        (
            "CREATE TABLE t (a DATE) PARTITION BY RANGE (YEAR(a)) (PARTITION p0 VALUES LESS THAN (5))",
            "TRUNCATE PARTITION p0",
        ),
        (RANGE, "TRUNCATE PARTITION p0sp1"),
        (RANGE, "EXCHANGE PARTITION p0 WITH TABLE d.x"),
        (RANGE, "IMPORT TABLESPACE"),
        (RANGE, "FIRST PARTITION LESS THAN (20)"),
    ],
)
def test_rows_that_no_rule_tells_are_unknowable(create_sql: str, sql: str) -> None:
    (effect,) = altered(table(create_sql), sql)[1]

    assert isinstance(effect, Unknowable)


@pytest.mark.parametrize(
    "sql",
    [
        "FIRST PARTITION LESS THAN (20)",
        "LAST PARTITION LESS THAN (90)",
        "MERGE FIRST PARTITION LESS THAN (20)",
        "SPLIT MAXVALUE PARTITION LESS THAN (90)",
    ],
)
def test_partitions_that_tidb_names_leave_a_rule_that_tells_no_rows(sql: str) -> None:
    schema, effects = altered(table(RANGE), sql)

    assert [type(effect) for effect in effects] == ([Unknowable] if sql.startswith("FIRST") else [])
    assert [type(effect) for effect in altered(schema, "DROP PARTITION p0")[1]] == [Unknowable]


@pytest.mark.parametrize(
    "sql",
    [
        "SPLIT BETWEEN (0) AND (9) REGIONS 4",
        "ADD MASKING POLICY p ON (a) AS a + 1",
        "MODIFY MASKING POLICY p SET EXPRESSION = CASE WHEN current_role() = 'r' THEN a ELSE 0 END",
        "STATS_OPTIONS DEFAULT",
        "PARTITION p0 PLACEMENT POLICY SET DEFAULT",
        "ADD PARTITION",
    ],
)
def test_what_lies_below_rows_and_columns_changes_nothing(sql: str) -> None:
    schema = table(RANGE)

    assert altered(schema, sql) == (schema, ())


def test_text_bounds_go_as_far_as_code_points_can_and_say_so() -> None:
    schema = table(
        "CREATE TABLE t (a VARCHAR(5)) PARTITION BY LIST COLUMNS (a) (PARTITION p VALUES IN ('x'), "
        "PARTITION q VALUES IN ('y'))"
    )

    effects = altered(schema, "DROP PARTITION p")[1]

    assert [type(effect) for effect in effects] == [RemoveRows, Unknowable]


def test_bounds_that_no_rule_reads_are_unknowable() -> None:
    pairs = table(
        "CREATE TABLE t (a INT, b INT) PARTITION BY LIST COLUMNS (a, b) (PARTITION p VALUES IN "
        "((1, 2)), PARTITION q DEFAULT)"
    )

    (effect,) = altered(pairs, "TRUNCATE PARTITION p")[1]

    assert isinstance(effect, Unknowable)


def test_the_default_partition_of_a_list_takes_its_rows_along() -> None:
    schema = table(
        "CREATE TABLE t (a INT) PARTITION BY LIST (a) (PARTITION p VALUES IN (1, NULL), PARTITION q DEFAULT)"
    )

    assert [type(effect) for effect in altered(schema, "TRUNCATE PARTITION q")[1]] == [RemoveRows]


def test_a_partition_that_is_not_there_is_nothing_to_drop_if_it_exists() -> None:
    schema = table(RANGE)
    rule = schema.partition
    assert rule is not None

    assert altered(schema, "DROP PARTITION IF EXISTS nope") == (schema, ())
    assert altered(schema, "DROP PARTITION IF EXISTS nope, p1")[1] == (RemoveRows(rule, ("p1",)),)
    assert [type(effect) for effect in altered(schema, "DROP PARTITION nope")[1]] == [Unknowable]


def test_a_bound_that_must_be_computed_ends_what_is_known_of_the_rule() -> None:
    schema, _ = altered(table(RANGE), "REORGANIZE PARTITION pm INTO (PARTITION x VALUES LESS THAN (10 * 10))")

    assert schema.partition is not None
    assert (schema.partition.method, schema.partition.partitions) == ("range", ())


def test_a_column_that_partitions_need_can_not_go() -> None:
    with pytest.raises(DdlError, match="expected a column that the partitions do not need"):
        altered(table(RANGE), "DROP a")


def test_an_auto_increment_column_is_never_null_so_its_unique_key_identifies_rows() -> None:
    assert table("CREATE TABLE t (a INT AUTO_INCREMENT, b INT, UNIQUE KEY (a))").handle_key == (1,)

    schema, effects = altered(table("CREATE TABLE t (a INT UNIQUE, b INT)"), "MODIFY a INT AUTO_INCREMENT")

    assert schema.handle_key == (1,)
    assert [type(effect) for effect in effects] == [Unknowable, Retype, Rekey]  # rows with NULL are numbered
    assert altered(schema, "MODIFY a INT UNSIGNED AUTO_INCREMENT")[1] == (
        Retype(1, ColumnType("int"), ColumnType("int", unsigned=True)),
    )


def test_the_last_of_null_and_not_null_counts() -> None:
    schema = table("CREATE TABLE t (a INT NOT NULL NULL, b INT NULL NOT NULL, c INT NOT NULL DEFAULT 1 NULL)")

    assert [column.not_null for column in schema.columns] == [False, True, False]


# --- what MariaDB 11.4 was seen to do


@pytest.mark.parametrize(
    ("sql", "columns", "keys"),
    [
        ("MODIFY b INT AFTER c, MODIFY c DATE FIRST", "c a b", "primary(a) u(b,c)"),
        ("DROP c, ADD c INT FIRST", "c a b", "primary(a) u(b,c)"),
        ("DROP a, ADD a BIGINT", "b c a", "primary(a) u(b,c)"),
        ("CHANGE a c INT, CHANGE c a DATE", "c b a", "primary(c) u(b,a)"),
        ("DROP a, DROP PRIMARY KEY", "b c", "u(b,c)"),
        ("MODIFY B INT", "a B c", "primary(a) u(B,c)"),
        ("RENAME INDEX u TO v, ADD UNIQUE u (c)", "a b c", "primary(a) v(b,c) u(c)"),
        ("ADD COLUMN IF NOT EXISTS b INT UNIQUE", "a b c", "primary(a) u(b,c) b(b)"),
        ("ADD COLUMN IF NOT EXISTS c INT PRIMARY KEY", "a b c", "primary(a) u(b,c)"),
        ("MODIFY IF EXISTS b INT PRIMARY KEY", "a b c", "primary(a) u(b,c)"),
        ("ADD UNIQUE IF NOT EXISTS w (b), ADD UNIQUE IF NOT EXISTS w (c)", "a b c", "primary(a) u(b,c) w(b)"),
        ("ADD x INT, ALTER x SET DEFAULT 5", "a b c x", "primary(a) u(b,c)"),
        ("CHANGE b x INT, ADD IF NOT EXISTS x DATE", "a x c", "primary(a) u(x,c)"),
        ("CHANGE IF EXISTS z x INT, ADD IF NOT EXISTS x DATE", "a b c", "primary(a) u(b,c)"),
    ],
)
def test_clauses_of_one_statement_meet_as_they_do_on_a_server(sql: str, columns: str, keys: str) -> None:
    schema, _ = altered(table("CREATE TABLE t (a INT PRIMARY KEY, b INT, c DATE, UNIQUE u (b, c))"), sql)

    names = {column.id: column.name for column in schema.columns}
    indexes = [("primary", schema.primary_key)] * bool(schema.primary_key) + [
        (index.name, index.columns) for index in schema.indexes
    ]
    assert " ".join(names.values()) == columns
    assert " ".join(f"{name}({','.join(names[column] for column in ids)})" for name, ids in indexes) == keys


def test_a_key_that_its_column_leaves_to_a_new_one_of_its_name_is_another_key() -> None:
    schema, effects = altered(table("CREATE TABLE t (a INT PRIMARY KEY, b INT)"), "DROP a, ADD a BIGINT")

    assert schema.primary_key == (3,)
    assert effects == (Drop(1), Fill(3, None, ColumnType("bigint"), True), Rekey((1,), (3,)))


def test_convert_reaches_columns_that_the_statement_defines() -> None:
    schema, _ = altered(
        table(ABC),
        (
            "ADD x TEXT CHARACTER SET latin1, MODIFY b CHAR(5) CHARACTER SET gbk, CONVERT TO CHARACTER "
            "SET utf8mb4"
        ),
    )

    assert [column.type.charset for column in schema.columns] == [None, "utf8mb4", None, "utf8mb4"]


def test_a_stored_column_is_computed_anew_where_a_column_that_it_names_changes_also_under_another_name() -> (
    None
):
    schema = table("CREATE TABLE t (a INT, b INT, g INT AS (`a` + length('b')) STORED)")

    assert altered(schema, "MODIFY b BIGINT")[1] == (Retype(2, ColumnType("int"), ColumnType("bigint")),)
    effects = altered(schema, "MODIFY a VARCHAR(9)")[1]
    assert effects[1:] == (
        Forget(3),
        Unknowable("column g: the source computes its values anew for existing rows"),
    )
    renamed = altered(schema, "RENAME COLUMN a TO `x y`, RENAME COLUMN b TO a")[0]
    assert renamed.columns[2].expression == "`x y` + length('b')"
    assert [type(effect) for effect in altered(renamed, "MODIFY `x y` VARCHAR(9)")[1]] == [
        Retype,
        Forget,
        Unknowable,
    ]


@pytest.mark.parametrize(
    "clause",
    [
        "MODIFY a VARCHAR(9)",
        "MODIFY v INT AS (a * 3)",
        "CHANGE v w INT AS (a * 3)",
        "DROP v, ADD v INT AS (a * 3)",
        "DROP a, ADD a INT DEFAULT 5",
        "MODIFY a VARCHAR(9), ADD n INT",
    ],
)
def test_a_stored_column_is_computed_anew_where_a_generated_column_that_it_names_is(clause: str) -> None:
    schema = table("CREATE TABLE t (a INT, v INT AS (a * 2), g INT AS (v + 1) STORED, h INT AS (g) STORED)")

    effects = altered(schema, clause)[1]

    assert [effect for effect in effects if isinstance(effect, Forget)] == [Forget(3), Forget(4)]
    assert altered(schema, "MODIFY v INT AS (`a`*2), MODIFY a INT COMMENT 'x'")[1] == ()
    assert altered(schema, "RENAME COLUMN v TO w, ADD z INT AS (a)")[1] == ()


def test_what_double_quotes_hold_in_an_expression_may_be_a_column() -> None:
    """No message tells whether the session had ANSI_QUOTES."""
    schema = table("""CREATE TABLE t (a INT, b INT, g INT AS ("a" + 1) STORED)""")

    assert Forget(3) in altered(schema, "MODIFY a VARCHAR(9)")[1]
    assert Forget(3) not in altered(schema, "MODIFY b VARCHAR(9)")[1]


def test_names_are_compared_as_servers_compare_them() -> None:
    names = ("straße", "strasse", "É", "e", "ς", "σ", "ẞ", "Ა", "ა")
    schema = table(f"CREATE TABLE t ({', '.join(f'{name} INT' for name in names)})")

    assert len({column.id for column in schema.columns}) == 9
    for name, found in (("STRASSE", "strasse"), ("é", "É"), ("Σ", "σ"), ("STRAßE", "straße"), ("E", "e")):
        column = schema.column(name)
        assert column is not None and column.name == found
    with pytest.raises(DdlError, match="expected one column of that name, got two"):
        table("CREATE TABLE t (İ INT, i INT)")


def test_an_integers_width_stays_where_it_is_filled_with_zeros() -> None:
    text = "CREATE TABLE t (a INT(5) ZEROFILL, b INT(5), c TINYINT(1), d BIGINT ZEROFILL, e INT(3) UNSIGNED)"

    assert [column.type.length for column in table(text).columns] == [5, None, 1, None, None]


def test_labels_have_no_blanks_at_their_end() -> None:
    schema = table("CREATE TABLE t (e ENUM('a ','b'), s SET('x  '))")

    assert [column.type.members for column in schema.columns] == [("a", "b"), ("x",)]
    assert parse_type("enum('a ','b')").members == ("a", "b")


# --- run on MariaDB 11.4 and MySQL 5.6


def test_convert_leaves_labels_of_charset_binary() -> None:
    schema = table("CREATE TABLE t (a ENUM('x') CHARACTER SET binary, b SET('x'), c CHAR(2)) CHARSET latin1")

    schema, effects = altered(schema, "CONVERT TO CHARACTER SET utf8mb4")

    assert [column.type.charset for column in schema.columns] == ["binary", "utf8mb4", "utf8mb4"]
    assert [effect.column_id for effect in effects if isinstance(effect, Retype)] == [2, 3]


@pytest.mark.parametrize(
    "clauses",
    [
        "DEFAULT CHARSET latin1, CONVERT TO CHARACTER SET utf8mb3",
        "CONVERT TO CHARACTER SET utf8mb3, DEFAULT CHARSET latin1",
    ],
)
def test_a_default_charset_beside_convert_is_that_of_columns_to_come(clauses: str) -> None:
    schema, _ = altered(table("CREATE TABLE t (a CHAR(2)) CHARSET utf8mb4"), clauses)

    schema, _ = altered(schema, "ADD b CHAR(2)")

    assert [column.type.charset for column in schema.columns] == ["utf8mb3", "latin1"]


def test_utf8_and_utf8mb3_are_one_charset() -> None:
    schema = table("CREATE TABLE t (a CHAR(2), b CHAR(9) AS (a) STORED) CHARSET utf8")

    for clause in ("MODIFY a CHAR(2) CHARACTER SET utf8mb3", "CONVERT TO CHARACTER SET utf8mb3"):
        assert altered(schema, clause)[1] == ()


@pytest.mark.parametrize("column", ["a", "c"])
def test_partition_by_may_name_a_column_as_it_was_before_the_statement(column: str) -> None:
    """MariaDB takes both."""
    rule = (
        f"PARTITION BY RANGE ({column}) (PARTITION p VALUES LESS THAN (9), PARTITION q VALUES LESS THAN (99))"
    )
    schema, _ = altered(table("CREATE TABLE t (a INT, b INT)"), f"RENAME COLUMN a TO c {rule}")

    assert schema.partition is not None
    assert schema.partition.columns == (1,)


def test_partition_by_a_name_that_two_columns_have_before_and_behind_a_statement_is_no_known_rule() -> None:
    """MariaDB takes the one that had it, MySQL the one that gets it."""
    rule = "PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (9), PARTITION q VALUES LESS THAN (99))"
    schema, _ = altered(table("CREATE TABLE t (a INT, b INT)"), f"CHANGE a b INT, CHANGE b a INT {rule}")

    _, effects = altered(schema, "DROP PARTITION p")

    assert [type(effect) for effect in effects] == [Unknowable]


def test_a_condition_of_an_index_in_a_list_of_columns_looks_at_the_table() -> None:
    schema = table("CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, UNIQUE x (a, b))")

    schema, _ = altered(schema, "ADD (c INT, UNIQUE IF NOT EXISTS x (b), UNIQUE IF NOT EXISTS y (c))")

    assert schema.unique_keys == ((1, 2), (3,))
