"""What the reader keeps beyond the JSON form, and what it refuses."""

import random

import pytest

from lakehouse.ddl import edits as e
from lakehouse.ddl.definitions import Partitioning
from lakehouse.ddl.parse.statements import read
from lakehouse.ddl.parse.tokens import lexed, plain_tokens
from lakehouse.errors import DdlError
from lakehouse.values.defaults import default_reason
from tests.support.ddl_cases import cases

# what a statement is made of, and what only looks like it
PIECES = """
a _x N b x e1 DIV CREATE `a` `a b` `é` `a-b.c` `` ` 'x' '' 'é;--#' '/*' "q" " 1 0 10 1e 0x1F 1.5 .5
. .. ; , ( ) = == + - -- # /* */ /*!x*/ /*!50100*/ /*T![clustered_index]CLUSTERED*/ /*T![foo]ADD*/
/*T!ADD*/ /*+h*/ /**/ /*'*/ @ @@a := < > ! | & % $ { [ \\ ~ ? * ** -> 'a''b' 'a\\'b' é 😀 \x00 _utf8'x'
N'x' x'1F' b'01' a.b 1a
"""


def only(sql: str) -> e.Statement:
    (statement,) = read(sql)
    return statement


def edits(sql: str) -> tuple[e.Edit, ...]:
    statement = only(sql)
    assert isinstance(statement, e.AlterTable)
    return statement.edits


def created(sql: str) -> e.CreateTable:
    statement = only(sql)
    assert isinstance(statement, e.CreateTable)
    return statement


def test_names_with_dots_are_one_name_and_databases_another() -> None:
    assert only("DROP TABLE `a.b`, a.b, `a`.`b.c`") == e.DropTable(((None, "a.b"), ("a", "b"), ("a", "b.c")))


def test_an_executed_comment_counts_and_any_other_does_not() -> None:
    assert only("DROP /*!40005 TEMPORARY */ TABLE t") == e.NoEffect("TEMPORARY TABLE")
    assert only("DROP /* TEMPORARY */ TABLE t") == e.DropTable(((None, "t"),))
    assert only("DROP /*+ TEMPORARY */ TABLE t # , u") == e.DropTable(((None, "t"),))
    assert only("DROP TABLE t /*T![other] of another feature */") == e.DropTable(((None, "t"),))


@pytest.mark.parametrize("verb", ["CREATE JSON RELATIONAL", "CREATE OR REPLACE JSON", "ALTER JSON"])
def test_a_duality_view_of_mysql_9_is_a_view(verb: str) -> None:
    text = f"{verb} DUALITY VIEW v AS SELECT JSON_DUALITY_OBJECT(WITH(INSERT) '_id': id) FROM t"

    assert only(text) == e.NoEffect("JSON")


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE t /*T![placement] , u */",
        "ALTER TABLE t ADD a INT /*T! DEFAULT 5 */",
        "ALTER TABLE t ADD a INT /*T![ttl] , DROP COLUMN b */",
        "ALTER TABLE t ADD a INT /*T![other] NOT NULL */",
        "ALTER TABLE t ADD a INT /*T![ttl] TTL=5 */",
        "ALTER TABLE t ADD a INT /*!5 , ADD b INT */",
    ],
)
def test_a_servers_own_comment_that_says_more_than_options_or_that_none_executes_is_refused(sql: str) -> None:
    with pytest.raises(DdlError):
        read(sql)


def test_an_option_in_a_servers_own_comment_is_a_clause() -> None:
    texts = [
        "TTL=`a` + INTERVAL 1 DAY */ /*T![ttl] TTL_ENABLE='ON'",
        "REMOVE TTL",
        "PLACEMENT POLICY=DEFAULT",
        "PLACEMENT POLICY SET DEFAULT",
    ]

    assert [len(edits(f"ALTER TABLE t /*T![ttl] {text} */")) for text in texts] == [1] * 4
    assert edits("ALTER TABLE t /*T! SHARD_ROW_ID_BITS = 4 */") == (e.NoEffect("table options"),)
    assert edits(
        "ALTER TABLE t ADD KEY i (a) /*T![pre_split] PRE_SPLIT_REGIONS=(BETWEEN (1) AND (9) REGIONS 4) */"
    ) == (e.AddIndex(("a",), "i"),)


def test_a_databases_placement_is_restored_within_a_comment() -> None:
    """TiDB's parser prints the whole statement so where it has no other option."""
    sql = "/*T![placement] ALTER DATABASE `d` PLACEMENT POLICY = `p` */"

    assert only(sql) == e.NoEffect("ALTER DATABASE")


@pytest.mark.parametrize(
    "sql",
    [
        f"CREATE TABLE t (a INT DEFAULT {'CASE WHEN 1 THEN ' * 3000})",
        f"CREATE TABLE t (a DATE DEFAULT {'{d ' * 3000})",
        f"CREATE TABLE t (a INT) /*T![ttl] {'(' * 3000}{')' * 3000} */",
    ],
)
def test_what_is_nested_deeper_than_any_server_takes_is_refused(sql: str) -> None:
    with pytest.raises(DdlError):
        read(sql)


@pytest.mark.parametrize("place", ["INDEX `i`", "PRIMARY KEY `PRIMARY`"])
def test_regions_that_a_tidb_shows_are_below_sql(place: str) -> None:
    regions = f"SPLIT {place} BETWEEN (0) AND (1000000) REGIONS 4"
    create = "CREATE TABLE t (a INT PRIMARY KEY, KEY i (a)) CHARSET=utf8mb4"

    assert read(f"{create}\n/*T![region_split] {regions} */") == read(create)
    assert read(f"{create} {regions}") == read(create)


def test_ansi_quotes_make_names_of_double_quotes() -> None:
    assert read('DROP TABLE "a""b", `c"d`') == [e.DropTable(((None, 'a"b'), (None, 'c"d')))]
    assert created('CREATE TABLE "t" ("a" VARCHAR(9) DEFAULT \'x"y\' COMMENT \'c\')').columns[0].name == "a"
    with pytest.raises(DdlError, match=r"character 12: expected a table name, got a string"):
        read('DROP TABLE "a" FROBNICATE')


def test_double_quotes_are_strings_wherever_they_can_be() -> None:
    assert created('CREATE TABLE t (a VARCHAR(9) DEFAULT "x" COMMENT "y")').columns[0].default == '"x"'


def test_a_range_rule_over_plain_columns_is_kept_whole() -> None:
    statement = created(
        "CREATE TABLE t (a INT, d DATE) /*!50100 PARTITION BY RANGE COLUMNS (a, `d`) SUBPARTITION "
        "BY HASH (a) SUBPARTITIONS 2"
        " (PARTITION p0 VALUES LESS THAN (-5, '2020-01-01') ENGINE = InnoDB, PARTITION `p1` VALUES "
        "LESS THAN (5, MAXVALUE)) */"
    )

    assert statement.partition == Partitioning(
        "range", ("a", "d"), (("p0", ("-5", "'2020-01-01'")), ("p1", ("5", None)))
    )


def test_a_list_rule_keeps_null_default_and_tuples() -> None:
    statement = created(
        "CREATE TABLE t (a INT) PARTITION BY LIST (a) (PARTITION p VALUES IN (1, NULL), PARTITION q DEFAULT)"
    )
    pairs = created(
        "CREATE TABLE t (a INT) PARTITION BY LIST COLUMNS (a, b) (PARTITION p VALUES IN ((1, 'x'), (2, 'y')))"
    )

    assert statement.partition == Partitioning("list", ("a",), (("p", ("1", "NULL")), ("q", ("DEFAULT",))))
    assert pairs.partition == Partitioning("list", ("a", "b"), (("p", ("(1, 'x')", "(2, 'y')")),))


@pytest.mark.parametrize(
    "rule",
    [
        "RANGE (YEAR(a)) (PARTITION p VALUES LESS THAN (5))",
        "RANGE (a + 1) (PARTITION p VALUES LESS THAN (5))",
        "RANGE (a) (PARTITION p VALUES LESS THAN (TO_DAYS('2020-01-01')))",
        "RANGE (a) (PARTITION p VALUES LESS THAN (5 + 5), PARTITION q VALUES LESS THAN MAXVALUE)",
        "RANGE (a) INTERVAL (10) FIRST PARTITION LESS THAN (10) LAST PARTITION LESS THAN (90)",
    ],
)
def test_of_a_rule_that_must_be_computed_only_the_method_is_kept(rule: str) -> None:
    assert created(f"CREATE TABLE t (a INT) PARTITION BY {rule}").partition == Partitioning("range")


def test_keys_keep_their_order_and_functional_ones_identify_nothing() -> None:
    statement = created(
        "CREATE TABLE t (a INT UNIQUE, b INT, UNIQUE (b, a), KEY k (b), UNIQUE f ((a + 1)), UNIQUE "
        "KEY g (b(3) DESC))"
    )

    assert [index.columns for index in statement.indexes if index.unique] == [("a",), ("b", "a"), ("b",)]
    assert [index.name for index in statement.indexes] == [None, None, "k", "f", "g"]


def test_an_index_over_some_rows_identifies_nothing() -> None:
    statement = created("CREATE TABLE t (a INT NOT NULL, UNIQUE u (a) WHERE a > 5 AND (a < 9), b INT)")
    assert not any(index.unique for index in statement.indexes)
    assert only("CREATE UNIQUE INDEX u ON t (a) WHERE `b` IS NOT NULL") == e.AlterTable(
        None, "t", (e.AddIndex(("a",), "u"),), index_statement=True
    )


def test_type_before_a_bracket_is_the_name_of_an_index() -> None:
    assert edits(
        "ALTER TABLE t ADD KEY type (a), ADD UNIQUE type TYPE BTREE (b), ADD KEY USING HASH (c)"
    ) == (
        e.AddIndex(("a",), "type"),
        e.AddUniqueKey(("b",), "type"),
        e.AddIndex(("c",)),
    )


def test_a_column_definition_keeps_its_default_as_written() -> None:
    (edit,) = edits(
        "ALTER TABLE t ADD c VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL"
        " DEFAULT _utf8mb4'it''s' COMMENT 'a\\'b' 'c' AFTER `x y`"
    )

    assert isinstance(edit, e.AddColumn)
    assert edit.position == "after x y"
    assert (edit.column.default, edit.column.comment, edit.column.charset) == (
        "_utf8mb4'it''s'",
        "a'bc",
        "latin1",
    )


@pytest.mark.parametrize(
    "default",
    [
        "`a`",  # so a MariaDB shows it
        "t.a",
        "d.`t`.a",
        "@@sql_mode",
        "@@session.sql_mode",
        "@v",
        "CASE a WHEN 1 THEN CASE WHEN 2 THEN 3 END ELSE 4 END",
        "{ts '2024-01-01 00:00:00'}",
        "utc_timestamp",
        "CURRENT_ROLE",
    ],
)
def test_a_default_of_mariadb_is_an_expression_without_brackets_too(default: str) -> None:
    (statement,) = read(f"CREATE TABLE t (a INT, b INT DEFAULT {default} NOT NULL COMMENT 'x')")
    assert isinstance(statement, e.CreateTable)

    column = statement.columns[1]

    assert (column.default, column.not_null, column.comment) == (default, True, "x")
    assert (
        default_reason(column.default, column.type, not_null=True)
        == f"the default is an expression: {default}"
    )


def test_the_charset_of_a_table_is_kept_from_any_of_its_spellings() -> None:
    texts = [
        "DEFAULT CHARACTER SET = gbk",
        "CHARSET gbk COLLATE gbk_bin",
        "COMMENT 'CHARSET=x' COLLATE=gbk_chinese_ci",
    ]

    assert [created(f"CREATE TABLE t (a TEXT) {text}").charset for text in texts] == ["gbk"] * 3


def test_alter_ignore_says_that_rows_may_go() -> None:
    assert edits("ALTER IGNORE TABLE t ADD UNIQUE u (a)") == (e.AddUniqueKey(("a",), "u"), e.DropDuplicates())
    for clause in ("MODIFY a TINYINT", "DROP a", "ADD CHECK (a > 1)", "CONVERT TO CHARACTER SET gbk"):
        assert edits(f"ALTER IGNORE TABLE t {clause}")[-1] == e.DropDuplicates()
    assert edits("ALTER IGNORE TABLE t ADD a INT") == edits("ALTER TABLE t ADD a INT")


def test_index_statements_are_alters_of_one_edit() -> None:
    assert only("CREATE UNIQUE INDEX i ON d.t (a, b DESC)") == e.AlterTable(
        "d", "t", (e.AddUniqueKey(("a", "b"), "i"),), index_statement=True
    )
    assert only("DROP INDEX i ON t") == e.AlterTable(None, "t", (e.DropIndex("i"),), index_statement=True)


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        (
            "ALTER TABLE t ADD c INT DEFAULT 'secret",
            "character 1 on: expected a quote or comment that ends, got the end of the text",
        ),
        ("ALTER TABLE t ADD c INT 'secret'", "character 25: expected the end of the statement, got a string"),
        ("ALTER TABLE t ADD c INT 4711", "character 25: expected the end of the statement, got a number"),
        ("ALTER TABLE t ADD", "the end of the statement: expected a column name, got the end"),
        ("ALTER TABLE t ADD c FANCY", "character 21: expected a known type, got 'FANCY'"),
        (
            "CREATE TABLE t (a INT, PRIMARY KEY ((a + 1)))",
            "character 45: expected a primary key of columns before it, got ')'",
        ),
        (
            "ALTER TABLE t ADD c\u00a0INT",
            "character 20: expected a word, a blank or a comment that ends, got neither",
        ),
        (
            "DROP TABLE t /* never ends",
            "character 1 on: expected a quote or comment that ends, got the end of the text",
        ),
        (
            "CREATE PROCEDURE p() BEGIN DROP TABLE t;",
            "the end of the text: expected END of a routine's body, got nothing",
        ),
    ],
)
def test_a_refusal_says_where_and_what_and_never_a_value(sql: str, error: str) -> None:
    with pytest.raises(DdlError) as caught:
        read(sql)

    assert str(caught.value) == error


def _mutants(sql: str, chance: random.Random) -> list[str]:
    """The text cut, with a piece gone, doubled or swapped, and with signs that matter put in."""
    cut, other = sorted((chance.randrange(len(sql) + 1), chance.randrange(len(sql) + 1)))
    words = sql.split(" ")
    place = chance.randrange(len(words))
    sign = chance.choice("'\"`(),;.*/-#\\@=\x00\u00a0\U0001f600" + "0a")
    return [
        sql[:cut],
        sql[:cut] + sql[other:],
        sql[:other] + sql[cut:],
        sql[:cut] + sign + sql[cut:],
        sql[:cut] + "/*!" + sql[cut:other] + "*/" + sql[other:],
        " ".join(words[:place] + words[place + 1 :]),
        " ".join([*words[:place], chance.choice(words), *words[place:]]),
    ]


def test_bounds_in_brackets_without_measure_are_a_rule_that_must_be_computed() -> None:
    bound = "(" * 5000 + "1" + ")" * 5000

    statement = created(f"CREATE TABLE t (a INT) PARTITION BY LIST (a) (PARTITION p VALUES IN ({bound}))")

    assert statement.partition == Partitioning("list")


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t ADD a INT DEFAULT " + "(" * 5000,
        "ALTER TABLE t ADD a CHAR(" + "9" * 5000 + ")",
        "/*! " * 3000 + "*/" * 3000,
        "ALTER TABLE t ADD a ENUM(x'ff')",
        "ALTER TABLE t ADD a BINARY(999999999)",
        "ALTER TABLE t ADD a DECIMAL(65,999999999)",
        "ALTER TABLE t ADD a TIME(999999999)",
    ],
)
def test_nesting_and_numbers_without_measure_are_refused(sql: str) -> None:
    with pytest.raises(DdlError, match="expected"):
        read(sql)


def test_any_text_is_statements_or_a_ddl_error() -> None:
    chance = random.Random(7)
    refused = 0
    for case in cases("statements")[::2] + cases("mariadb") + cases("grammar"):
        for mutant in _mutants(case["sql"], chance):
            try:
                read(mutant)
            except DdlError as error:
                assert str(error)
                refused += 1

    assert refused > 1000


def test_a_statement_without_its_end_is_never_a_shorter_statement_of_another_kind() -> None:
    for case in cases("statements")[:160]:
        if len(case["expect"]) != 1 or case["expect"][0]["kind"] in ("no_effect", "error"):
            continue
        whole = type(only(case["sql"]))
        for cut in range(0, len(case["sql"]), 3):
            try:
                found = read(case["sql"][:cut])
            except DdlError:
                continue
            assert all(type(statement) is whole for statement in found), case["sql"][:cut]


def test_plain_tokens_are_those_of_the_lexer() -> None:
    chance, plain = random.Random(5), 0
    texts = [
        "".join(chance.choice((*PIECES.split(), " ", "\n")) + chance.choice(("", " ")) for _ in range(size))
        for size in (1, 2, 3, 4, 6)
        for _ in range(2_000)
    ]
    for sql in texts:
        found = plain_tokens(sql, offset=7)
        if found is not None:
            plain += 1
            assert found == lexed(sql, offset=7), sql
    assert plain > 1_000
    create = (
        "CREATE TABLE `d`.`t` (id BIGINT(20) NOT NULL COMMENT 'key', n INT DEFAULT '1', PRIMARY KEY (`id`))"
    )
    assert plain_tokens(f"{create} /*T![placement] PLACEMENT POLICY=p */;") is not None


@pytest.mark.parametrize(
    "sql", ["CREATE TABLE t LIKE u)", "CREATE TABLE t (LIKE u) x", "CREATE TABLE t LIKE u, v"]
)
def test_nothing_follows_the_table_that_another_is_made_like(sql: str) -> None:
    with pytest.raises(DdlError):
        read(sql)
