"""A statement's names against the names that rows have (T64, T67, T68, T69, T77)."""

import pytest

from tests.support.feeds import Canal, TiCDC

CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `a` VARCHAR(10))"


def test_a_statement_in_another_case_is_about_the_table_that_its_message_names() -> None:
    feed = (
        TiCDC()
        .ddl(1, CREATE)
        .insert(2, id=1, a="x")
        .ddl(3, "ALTER TABLE `D`.`T` ADD COLUMN `b` INT DEFAULT 5")
    )

    assert feed.tables == {"d.t": [{"id": 1, "a": "x", "b": 5}]}


def test_a_truncate_in_another_case_clears_the_table() -> None:
    feed = (
        TiCDC()
        .ddl(1, CREATE)
        .insert(2, id=1, a="x")
        .ddl(3, "TRUNCATE TABLE `T`", table=None)
        .insert(4, id=2, a="y")
    )

    assert feed.tables == {"d.t": [{"id": 2, "a": "y"}]}


def test_tables_that_differ_in_case_alone_stay_two() -> None:
    feed = TiCDC().ddl(1, CREATE).ddl(1, CREATE.replace("`t`", "`T`"), table="T").insert(2, id=1, a="x")
    feed.row(2, "INSERT", {"id": 2, "a": "y"}, table="T").ddl(3, "TRUNCATE TABLE `T`", table="T")

    assert feed.tables == {"d.t": [{"id": 1, "a": "x"}], "d.T": []}


def test_a_server_that_lowers_names_sends_rows_under_a_name_that_no_statement_has() -> None:
    feed = Canal().ddl(1, "CREATE TABLE ORDERS (id INT PRIMARY KEY, a VARCHAR(5))", table="ORDERS")
    feed.row(2, "INSERT", {"id": 1, "a": "x"}, table="orders").ddl(
        3, "ALTER TABLE ORDERS ADD b INT DEFAULT 4", table="ORDERS"
    )

    assert feed.tables == {"d.orders": [{"id": 1, "a": "x", "b": 4}]}


def test_an_empty_table_does_not_take_the_rows_of_one_that_is_spelled_in_another_case() -> None:
    feed = (
        Canal()
        .ddl(1, "CREATE TABLE T (id INT PRIMARY KEY)", table="T")
        .ddl(2, CREATE)
        .row(3, "INSERT", {"id": 1, "a": "x"})
    )

    assert feed.tables == {"d.T": [], "d.t": [{"id": 1, "a": "x"}]}


def test_a_rename_in_case_alone_keeps_the_table() -> None:
    feed = TiCDC().ddl(1, CREATE).insert(2, id=1, a="x").ddl(3, "RENAME TABLE `t` TO `T`", table="T")
    feed.row(4, "INSERT", {"id": 2, "a": "y"}, table="T")

    assert feed.tables == {"d.T": [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}]}


def test_a_table_that_moves_to_another_database_is_followed_though_the_statement_leaves_out_the_old_one() -> (
    None
):
    feed = (
        TiCDC()
        .ddl(1, CREATE)
        .insert(2, id=1, a="x")
        .ddl(3, "RENAME TABLE `t` TO `d2`.`u`", table="u", database="d2")
    )

    assert feed.tables == {"d2.u": [{"id": 1, "a": "x"}]}


def test_databases_are_dropped_in_any_case() -> None:
    feed = TiCDC().ddl(1, CREATE).insert(2, id=1, a="x").ddl(3, "DROP DATABASE `D`", table=None)

    assert feed.tables == {}


def test_a_recovered_table_has_its_rows_and_is_incomplete() -> None:
    feed = (
        TiCDC()
        .ddl(1, CREATE)
        .insert(2, id=1, a="x")
        .ddl(3, "DROP TABLE `t`")
        .ddl(4, "RECOVER TABLE `t`")
        .insert(5, id=2, a="y")
    )

    assert feed.table() == [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}]
    assert feed.incomplete() == "it was recovered upstream, which sends no rows"


def test_a_truncated_table_flashed_back_under_a_new_name_leaves_the_old_one_complete() -> None:
    feed = TiCDC().ddl(1, CREATE).insert(2, id=1, a="x").ddl(3, "TRUNCATE TABLE `t`").insert(4, id=2, a="y")
    feed.ddl(5, "FLASHBACK TABLE `t` TO `t2`", table="t2").row(6, "INSERT", {"id": 3, "a": "z"}, table="t2")

    assert feed.tables == {"d.t": [{"id": 2, "a": "y"}], "d.t2": [{"id": 3, "a": "z"}]}
    assert feed.incomplete("d.t") is None
    assert feed.incomplete("d.t2") == "it was recovered upstream, which sends no rows"


def test_a_database_flashed_back_under_a_new_name_has_the_tables_that_its_drop_ended() -> None:
    feed = TiCDC().ddl(1, CREATE).ddl(1, CREATE.replace("`t`", "`gone`"), table="gone").insert(2, id=1, a="x")
    feed.ddl(3, "DROP TABLE `gone`", table="gone").ddl(4, "DROP DATABASE `d`", table=None)
    feed.ddl(5, "FLASHBACK DATABASE `d` TO `d2`", table=None, database="d2").row(
        6, "INSERT", {"id": 2, "a": "y"}, database="d2"
    )

    assert feed.tables == {"d2.t": [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}]}
    assert feed.incomplete("d2.t") == "it was recovered upstream, which sends no rows"


def test_a_cluster_flashed_back_leaves_every_table_incomplete() -> None:
    feed = (
        TiCDC()
        .ddl(1, CREATE)
        .insert(2, id=1, a="x")
        .ddl(3, "FLASHBACK CLUSTER TO TIMESTAMP '2024-01-01 00:00:00'", table=None)
    )

    assert feed.incomplete() == "the cluster was flashed back, which sends no rows"


@pytest.mark.parametrize(
    ("sql", "table", "held"),
    [
        ("FLASHBACK TABLE `t`, `u` TO TIMESTAMP '2024-01-01 00:00:00'", "t", ["t", "u"]),
        ("FLASHBACK DATABASE `d` TO TSO 5", None, ["t", "u"]),
        ("RECOVER TABLE BY JOB 5", "t", ["t"]),
    ],
)
def test_tables_that_went_back_in_time_are_held_with_what_to_do(
    sql: str, table: str | None, held: list[str]
) -> None:
    feed = TiCDC().ddl(1, CREATE).ddl(1, CREATE.replace("`t`", "`u`"), table="u").ddl(3, sql, table=table)

    found = {one.intervals[-1].name[1]: one.held for one in feed.memory.history().lineages if one.held}

    assert sorted(found) == held
    assert all(
        "take a snapshot of the tables, then `lakehouse ddl skip` it" in one.why for one in found.values()
    )


def test_a_statement_that_cannot_be_read_holds_the_table_that_it_names() -> None:
    """The message's database may be the session's, and after a RENAME its table is the new name."""
    feed = (
        TiCDC()
        .ddl(1, "CREATE TABLE t (id INT PRIMARY KEY)")
        .ddl(2, "CREATE TABLE t (id INT PRIMARY KEY)", database="x")
    )

    elsewhere = feed.ddl(3, "USE x; ALTER TABLE d.t FROBNICATE", database="x").memory.history()
    renamed = feed.ddl(4, "ALTER ONLINE TABLE IF EXISTS x.t RENAME u, FROBNICATE", "u", "x").memory.history()

    assert [one.intervals[-1].name for one in elsewhere.lineages if one.held] == [("d", "t")]
    assert sorted(one.intervals[-1].name for one in renamed.lineages if one.held) == [
        ("d", "t"),
        ("x", "t"),
        ("x", "u"),
    ]


@pytest.mark.parametrize(
    ("sql", "held"),
    [
        ("TRUNCATE t FROBNICATE", ["t"]),
        ("DROP TABLES IF EXISTS v, t FROBNICATE", ["t", "v"]),
        ("RENAME TABLE t TO w FROBNICATE", ["t", "w"]),
        ("CREATE OR REPLACE TABLE IF NOT EXISTS t FROBNICATE", ["t"]),
        ("ALTER IGNORE TABLE t FROBNICATE", ["t"]),
        ("FROBNICATE t; DROP VIEW t", []),
        ("TRUNCATE t; FROBNICATE 'a", []),
    ],
)
def test_a_statement_that_cannot_be_read_holds_tables_that_its_message_does_not_name(
    sql: str, held: list[str]
) -> None:
    history = TiCDC().ddl(1, CREATE).ddl(3, sql, table=None).memory.history()

    assert sorted(one.intervals[-1].name[1] for one in history.lineages if one.held) == held
    assert len(history.problems) == (0 if held else 1)


@pytest.mark.parametrize(
    "sql",
    [
        "RENAME TABLE `d`.`t` TO `u`",
        "RENAME TABLE `t` TO `e`.`u`",
        "ALTER TABLE `d`.`t` RENAME AS `u`",  # of the session's database, as a server was seen to take it
        "ALTER TABLE `t` RENAME AS `e`.`u`",
        "ALTER TABLE `t` RENAME AS `e`.`u`, COMMENT 'moved'",
    ],
)
@pytest.mark.parametrize("has_create", [True, False])
def test_a_table_that_moves_to_another_database_keeps_its_rows(sql: str, has_create: bool) -> None:
    """The message has the new name, and each of the statement's names may lack its database."""
    feed = TiCDC().ddl(1, CREATE) if has_create else TiCDC()
    feed.insert(2, id=1, a="x").ddl(3, sql, table="u", database="e")
    feed.row(4, "INSERT", {"id": 2, "a": "y"}, table="u", database="e")

    assert feed.tables == {"e.u": [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}]}


@pytest.mark.parametrize("sql", ["RENAME TABLE `t` TO `e`.`t`", "ALTER TABLE `t` RENAME AS `e`.`t`"])
def test_a_table_that_keeps_its_name_in_another_database_keeps_its_rows(sql: str) -> None:
    feed = TiCDC().ddl(1, CREATE).insert(2, id=1, a="x").ddl(3, sql, database="e")
    feed.row(4, "INSERT", {"id": 2, "a": "y"}, database="e")

    assert feed.tables == {"e.t": [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}]}


@pytest.mark.parametrize("sql", ["RENAME TABLE `t` TO `e`.`u`", "ALTER TABLE `t` RENAME AS `e`.`u`"])
def test_tables_of_which_any_may_have_moved_are_incomplete(sql: str) -> None:
    feed = TiCDC().ddl(1, CREATE).ddl(1, CREATE, database="f").ddl(3, sql, table="u", database="e")

    incomplete = [one.intervals[-1].name for one in feed.memory.history().lineages if one.incomplete]

    assert incomplete == [("d", "t"), ("f", "t")]


def test_a_rename_of_a_session_s_own_table_takes_none_of_another_database() -> None:
    """A table that is not captured becomes another: `d.t` is not it."""
    feed = Canal().ddl(1, CREATE).row(2, "INSERT", {"id": 1, "a": "x"})
    feed.ddl(3, "RENAME TABLE t TO d.u", table="u", database="x").ddl(4, "RENAME TABLE t TO w", "w", "x")

    assert feed.tables["d.t"] == [{"id": 1, "a": "x"}]


@pytest.mark.parametrize("database", ["e", "d"])
def test_a_table_that_is_made_like_one_of_the_session_s_database_has_its_columns(database: str) -> None:
    """The message has the new table's database, or the session's."""
    feed = TiCDC().ddl(1, CREATE).ddl(3, "CREATE TABLE `e`.`u` LIKE `t`", table="u", database=database)

    assert feed.memory.history().live((0, 9, 2, 0, 0, 0))["e", "u"].steps[-1].schema.primary_key == (1,)


@pytest.mark.parametrize(("other", "labels"), [("'p','q'", ("p", "q")), ("'q','p'", ())])
def test_a_table_made_like_one_of_two_databases_has_its_columns_where_both_have_the_same(
    other: str, labels: tuple[str, ...]
) -> None:
    """TiCDC sends the statement as its author wrote it, and the new table's database alone."""
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `e` ENUM({}))"
    feed = TiCDC().ddl(1, create.format("'p','q'")).ddl(2, create.format(other), database="e")
    feed.ddl(3, "CREATE TABLE `e`.`u` LIKE `t`", table="u", database="e")
    types = {"id": "int", "e": "enum"}
    feed.row(4, "INSERT", {"id": 1, "e": 1}, types=types, table="u", database="e")

    schema = feed.memory.history().live((0, 9, 2, 0, 0, 0))["e", "u"].steps[-1].schema
    assert [column.type.members for column in schema.columns] == [(), labels]


def test_a_rename_into_a_database_that_has_such_a_table_too_leaves_both_incomplete() -> None:
    feed = TiCDC().ddl(1, CREATE).insert(2, id=1, a="x").ddl(3, CREATE, database="e")
    feed.row(4, "INSERT", {"id": 2, "a": "y"}, database="e")
    feed.ddl(5, "RENAME TABLE `t` TO `e`.`u`", table="u", database="e")
    at = (0, 9, 2, 0, 0, 0)

    incomplete = {name for name, one in feed.memory.history().live(at).items() if one.incomplete_at(at)}

    assert incomplete == {("d", "t"), ("e", "u")}


def test_a_rename_within_one_database_is_of_no_other_one_s_table() -> None:
    feed = TiCDC().ddl(1, CREATE).ddl(1, CREATE, database="e")
    feed.ddl(2, "RENAME TABLE `t` TO `u`", "u", "e").ddl(3, "RENAME TABLE `d`.`t` TO `e`.`t`", "t", "e")

    assert feed.tables.keys() == {"e.u", "e.t"}
    at = (0, 9, 2, 0, 0, 0)
    assert not any(one.incomplete_at(at) for one in feed.memory.history().live(at).values())


def test_an_exchange_with_a_table_of_the_session_s_database_leaves_both_incomplete() -> None:
    feed = TiCDC().ddl(1, CREATE).ddl(1, CREATE.replace("`t`", "`p`"), table="p", database="e")
    feed.ddl(3, "ALTER TABLE `e`.`p` EXCHANGE PARTITION `a` WITH TABLE `t`", table="p", database="e")
    at = (0, 9, 2, 0, 0, 0)

    incomplete = {name for name, one in feed.memory.history().live(at).items() if one.incomplete_at(at)}

    assert incomplete == {("d", "t"), ("e", "p")}


def test_a_dropped_table_that_may_be_of_the_session_s_database_is_incomplete() -> None:
    """The message has the database of the first one, which the server writes if it is not the session's."""
    feed = Canal().ddl(1, CREATE).ddl(1, CREATE, database="e")
    for database in ("d", "e"):
        feed.ddl(2, CREATE.replace("`t`", "`u`"), "u", database)

    feed.ddl(3, "DROP TABLE `e`.`t`,`u`,`t` /* generated by server */", table="t", database="e")

    history = feed.memory.history()
    assert [(one.intervals[-1].name, one.end is None) for one in history.lineages if one.incomplete] == [
        (("d", "t"), True),
        (("d", "u"), True),
    ]
    assert list(history.live((0, 9, 0, 0, 0, 0))) == [("d", "t"), ("d", "u"), ("e", "u")]


# --- a server that lowers names (lower_case_table_names=1), whose statements are spelled as they were written


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("TRUNCATE TABLE T", [{"id": 2, "a": "y"}]),
        ("DROP TABLE T", None),
        ("ALTER TABLE T ADD b VARCHAR(9) DEFAULT 'q'", [{"id": 1, "a": "x", "b": "q"}]),
    ],
)
def test_a_statement_in_another_case_is_about_the_table_of_which_only_rows_are_known(
    sql: str, rows: list[dict[str, object]] | None
) -> None:
    feed = Canal().row(1, "INSERT", {"id": 1, "a": "x"}).ddl(2, sql, table="T")
    if "TRUNCATE" in sql:
        feed.row(3, "INSERT", {"id": 2, "a": "y"})

    assert feed.tables == ({} if rows is None else {"d.t": rows})


@pytest.mark.parametrize("sql", ["RENAME TABLE t TO U", "ALTER TABLE T RENAME TO U"])
def test_a_renamed_table_goes_on_under_the_name_that_its_rows_have(sql: str) -> None:
    feed = Canal().ddl(1, CREATE).row(2, "INSERT", {"id": 1, "a": "x"}).ddl(3, sql, table="U")
    feed.row(4, "INSERT", {"id": 2, "a": "y"}, table="u")

    assert feed.tables == {"d.u": [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}]}


def test_a_rename_in_case_alone_changes_no_name_that_is_lowered() -> None:
    feed = Canal().ddl(1, CREATE).row(2, "INSERT", {"id": 1, "a": "x"}).ddl(3, "RENAME TABLE t TO T", "T")
    feed.row(4, "INSERT", {"id": 2, "a": "y"})

    assert feed.tables == {"d.t": [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}]}


def test_tables_that_exchange_their_names_in_another_case_keep_their_rows() -> None:
    feed = Canal().ddl(1, CREATE).ddl(1, CREATE.replace("`t`", "`n`"), table="n")
    feed.row(2, "INSERT", {"id": 1, "a": "x"}).row(2, "INSERT", {"id": 5, "a": "n"}, table="n")
    feed.ddl(3, "RENAME TABLE T TO OLD, N TO T", table="T").row(4, "INSERT", {"id": 6, "a": "y"})

    assert feed.tables == {"d.OLD": [{"id": 1, "a": "x"}], "d.t": [{"id": 5, "a": "n"}, {"id": 6, "a": "y"}]}


def test_a_table_that_is_created_again_in_another_case_is_the_one_that_its_rows_name() -> None:
    feed = Canal().ddl(1, CREATE).row(2, "INSERT", {"id": 1, "a": "x"}).ddl(3, "DROP TABLE T", table="T")
    feed.ddl(4, "CREATE TABLE T (id INT PRIMARY KEY)", table="T").row(5, "INSERT", {"id": 2})

    assert feed.tables == {"d.t": [{"id": 2}]}
    assert feed.incomplete() is None


INT_KEY = "(id INT PRIMARY KEY, v VARCHAR(9))"


def lowered(at: int, feed: Canal, **values: object) -> Canal:
    """A row of Users from a server that lowers names (lower_case_table_names=1)."""
    feed.row(at, "INSERT", values, table="users")
    return feed


def test_a_create_that_finds_its_table_there_makes_no_second_one_in_another_case() -> None:
    feed = Canal().ddl(1, f"CREATE TABLE IF NOT EXISTS Users {INT_KEY}", table="Users")
    lowered(2, feed, id=1, v="a")
    feed.ddl(3, f"CREATE TABLE IF NOT EXISTS Users {INT_KEY}", table="Users")
    feed.ddl(4, "TRUNCATE TABLE Users", table="Users")
    lowered(5, feed, id=2, v="b")

    assert feed.tables == {"d.users": [{"id": 2, "v": "b"}]}


def test_a_table_that_is_created_in_the_rows_case_later_is_the_same() -> None:
    feed = Canal().ddl(1, f"CREATE TABLE Users {INT_KEY}", table="Users")
    lowered(2, feed, id=1, v="a")
    feed.ddl(3, f"CREATE TABLE IF NOT EXISTS users {INT_KEY}", table="users")
    feed.ddl(4, "TRUNCATE TABLE Users", table="Users")

    assert feed.tables == {"d.users": []}


def test_two_tables_that_differ_in_case_alone_are_two_where_the_server_tells_them_apart() -> None:
    feed = TiCDC().ddl(1, f"CREATE TABLE t {INT_KEY}").insert(2, id=1, v="a")
    feed.ddl(3, f"CREATE TABLE IF NOT EXISTS T {INT_KEY}", table="T")
    feed.row(4, "INSERT", {"id": 2, "v": "b"}, table="T")

    assert feed.tables == {"d.t": [{"id": 1, "v": "a"}], "d.T": [{"id": 2, "v": "b"}]}
