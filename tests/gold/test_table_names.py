"""Which Delta table a source table's rows are in, run after run, whatever happens to tables between runs."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lakehouse.ddl.policy import Rules
from lakehouse.gold.table_names import Live, Made, NamesHeld, holders, made_of, names_held
from tests.support.feeds import TiCDC
from tests.support.records import table_entry

A, B = ("d", "a"), ("d", "b")


def live(lineage: str, name: tuple[str, str]) -> Live:
    return Live(lineage, name, "__".join(name))


def made(lineage: str, name: tuple[str, str], gold: str = "") -> Made:
    return Made(gold or "__".join(name), lineage, name, "__".join(name))


def test_a_table_that_was_created_again_takes_over_the_delta_table_of_the_dropped_one() -> None:
    assert holders([made("first", A)], [live("second", A)]) == {"second": "d__a"}


def test_a_renamed_table_stays_in_its_delta_table_until_another_one_has_its_name() -> None:
    tables = [made("one", A)]
    assert holders(tables, [live("one", B)]) == {"one": "d__a"}
    assert holders(tables, [live("one", B), live("other", A)]) == {"other": "d__a"}


def test_tables_that_swap_their_names_take_each_others_delta_tables() -> None:
    tables = [made("one", A), made("other", B)]
    assert holders(tables, [live("one", B), live("other", A)]) == {"one": "d__b", "other": "d__a"}


def test_a_table_whose_names_alone_look_alike_takes_nothing_over() -> None:
    dropped = Made("a__b__c", "first", ("a", "b__c"), "a__b__c")
    assert holders([dropped], [Live("second", ("a__b", "c"), "a__b__c")]) == {}


def test_a_table_under_a_suffixed_name_keeps_it() -> None:
    """Of a lake in which the frozen table of an earlier life stands beside the one that goes on."""
    tables = [made("first", A), made("second", A, "d__a_2")]
    assert holders(tables, [live("second", A)]) == {"second": "d__a_2"}
    assert holders(tables, [live("third", A)]) == {"third": "d__a_2"}


def test_a_dropped_table_that_was_kept_and_comes_back_is_not_read_in_its_copy() -> None:
    kept = Made("d__a_dropped", "first", A, "d__a_dropped")
    assert holders([kept, made("second", A)], [live("first", A)]) == {"first": "d__a"}


def test_a_table_whose_yaml_gives_it_another_name_stays_where_it_is() -> None:
    assert holders([made("one", A)], [Live("one", A, "orders")]) == {"one": "d__a"}


def test_an_entry_of_an_older_manifest_tells_by_its_gold_name_what_it_was_made_for() -> None:
    entry = table_entry(
        lineage="one", table="c", gold="d__b_2", version=3, wanted="d__b", names=(A, B, ("d", "c"))
    )
    assert made_of(entry) == made("one", B, "d__b_2")
    assert made_of(replace(entry, wanted="orders")).made_for == A
    assert made_of(replace(entry, made_for=("d", "c"))).made_for == ("d", "c")


NAMES = [("d", letter) for letter in "abc"]


@st.composite
def lives(draw: st.DrawFn) -> list[dict[tuple[str, str], str]]:
    """The live tables after each statement: which lineage has which name."""
    now: dict[tuple[str, str], str] = {}
    states = [dict(now)]
    for number in range(draw(st.integers(1, 12))):
        name, other = draw(st.permutations(NAMES))[:2]
        match draw(st.sampled_from(["create", "drop", "rename", "swap"])):
            case "create":
                now[name] = f"lineage {number}"
            case "drop":
                now.pop(name, None)
            case "rename" if name in now and other not in now:
                now[other] = now.pop(name)
            case "swap" if name in now and other in now:
                now[name], now[other] = now[other], now[name]
        states.append(dict(now))
    return states


def published(tables: list[Made], now: dict[tuple[str, str], str]) -> list[Made]:
    """What a run makes of the last manifest's tables; dropped ones stay."""
    has = holders(tables, [live(lineage, name) for name, lineage in now.items()])
    by_gold = {table.gold: table for table in tables}
    for name, lineage in now.items():
        if lineage in has:
            table = by_gold[has[lineage]]
            by_gold[table.gold] = table._replace(lineage=lineage)
        else:
            wanted = gold = "__".join(name)
            gold = next(one for one in [wanted, f"{wanted}_2", f"{wanted}_3"] if one not in by_gold)
            by_gold[gold] = Made(gold, lineage, name, wanted)
    return list(by_gold.values())


@given(lives(), st.data())
def test_a_name_is_read_in_one_delta_table_for_good_however_often_gold_runs(
    states: list[dict[tuple[str, str], str]], data: st.DataObject
) -> None:
    tables: list[Made] = []
    for now in states:
        if not data.draw(st.booleans()):
            continue
        before = {table.made_for: table.gold for table in tables}
        tables = published(tables, now)
        rows = {table.gold: table.lineage for table in tables}
        for name, lineage in now.items():
            if name in before:
                assert rows[before[name]] == lineage
        assert len(rows) == len(tables)


# --- names that stay with held tables

CREATE = "CREATE TABLE t (id INT PRIMARY KEY)"
WHY = "it has the name of d.t, which is held: on_ddl says hold for"


def kept(policy: dict[str, str], *statements: str, made: tuple[str, ...] = ("d.t@0.1.2",)) -> NamesHeld:
    feed = TiCDC().ddl(1, CREATE).ddl(2, CREATE.replace(" t ", " g "), table="g")
    for at, sql in enumerate(statements, 3):
        feed.ddl(at, sql, table=None)
    history = feed.memory.ruled(Rules({("d", "t"): policy})).history()
    return names_held(history.lineages, (0, 9, 2, 0, 0, 0), made)


def test_a_table_that_is_created_again_waits_for_the_decision_on_the_held_drop() -> None:
    found = kept({"drop_table": "hold"}, "DROP TABLE t", CREATE)
    replaced = kept({"drop_table": "reject"}, "CREATE OR REPLACE TABLE t (id INT)")

    assert found.kept == {"d.t@0.1.2": ("d", "t")}
    assert {name: (one.position[1], one.by, one.why) for name, one in found.waits.items()} == {
        "d.t@0.4.2": (4, "name", f"{WHY} drop_table")
    }
    assert [one.position[1] for one in replaced.waits.values()] == [3]


def test_a_table_that_takes_the_name_of_one_whose_rename_is_held_waits_before_it() -> None:
    found = kept({"rename_table": "hold"}, "RENAME TABLE t TO old, g TO t", made=("d.t@0.1.2", "d.g@0.2.2"))

    assert found.kept == {"d.t@0.1.2": ("d", "t")}
    assert {name: one.position[1] for name, one in found.waits.items()} == {"d.g@0.2.2": 3}


def test_no_table_waits_for_one_that_is_held_before_another_statement_than_its_last() -> None:
    assert kept({"truncate_table": "hold"}, "TRUNCATE TABLE t", "DROP TABLE t", CREATE) == ({}, {})
    assert kept({"drop_table": "ignore"}, "DROP TABLE t", CREATE) == ({}, {})
    assert kept({"drop_table": "hold"}, "DROP TABLE t", CREATE, made=("d.t@0.4.2",)) == ({}, {})


def test_a_table_that_was_published_before_the_policy_came_stays() -> None:
    both = ("d.t@0.1.2", "d.t@0.4.2")

    assert kept({"drop_table": "hold"}, "DROP TABLE t", CREATE, made=both).waits == {}
