"""Which source tables gold has, where YAMLs name some: a table under any of its names, and no ghost of an
online schema change. Needs Spark's package, but no session.
"""

from lakehouse.gold.options import GoldOptions
from lakehouse.lineage import Lineage, Name
from lakehouse.spark.gold.plan import _is_wanted
from lakehouse.spark.gold.settings import GoldSettings, is_selected
from tests.support.feeds import TiCDC

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10))"
T: Name = ("d", "t")
NAMED = GoldSettings("s", tables=frozenset({T}), options={T: GoldOptions()})
ALL = GoldSettings("s")


def feed() -> TiCDC:
    """A table that gold is to have, and the ghost that is to take its place."""
    return TiCDC().ddl(1, CREATE).ddl(2, "CREATE TABLE _t_gho LIKE t", table="_t_gho")


def swapped() -> TiCDC:
    told = feed().ddl(3, "RENAME TABLE `d`.`t` TO `d`.`_t_del`", table="_t_del")
    return told.ddl(3, "RENAME TABLE `d`.`_t_gho` TO `d`.`t`")


def tables(told: TiCDC) -> dict[str, Lineage]:
    history = told.memory.history()
    return {name[1]: one for name, one in history.live(told.memory.reach).items()}


def new_ones(settings: GoldSettings, told: TiCDC) -> list[str]:
    """The tables that get a Delta table of their own, where gold has none yet."""
    live = tables(told)
    names: list[Name | None] = [("d", name) for name in live]
    return [
        name
        for name, one in live.items()
        if is_selected(settings, one) and _is_wanted(settings, one, ("d", name), names)
    ]


def test_a_ghost_table_is_in_gold_where_all_tables_are_alone() -> None:
    assert [name for name, one in tables(feed()).items() if is_selected(NAMED, one)] == ["t"]
    assert sorted(new_ones(ALL, feed())) == ["_t_gho", "t"]


def test_the_table_that_takes_a_selected_name_is_selected_and_the_other_one_gets_no_table() -> None:
    assert new_ones(NAMED, swapped()) == ["t"]
    assert sorted(new_ones(ALL, swapped())) == ["_t_del", "t"]


def test_a_selected_table_stays_selected_under_a_new_name() -> None:
    renamed = feed().ddl(3, "RENAME TABLE `t` TO `u`", table="u")

    assert new_ones(NAMED, renamed) == ["u"]


def test_a_table_is_selected_by_the_names_that_it_has_had_so_far() -> None:
    """Before a RENAME above the watermark no YAML names it: its Delta table would have a name of then."""
    told = TiCDC().ddl(1, CREATE.replace("TABLE t", "TABLE x"), table="x").ddl(5, "RENAME TABLE x TO t")
    one = tables(told)["t"]

    assert [is_selected(NAMED, one, (0, ts, 2, 0, 0, 0)) for ts in (4, 5)] == [False, True]
