"""A log that is folded together at a floor gives the tables of the whole log, from the floor on."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.ddl.policy import Rules
from lakehouse.ddl_effects import Clear
from lakehouse.events import just_below
from lakehouse.fold.compaction import compacted, folded_under, needs_log, with_namesakes
from lakehouse.fold.upcast import Upstream
from lakehouse.lineage import Lineage, Step
from tests.support.arrivals import Feed
from tests.support.canal_feed import CanalFeed
from tests.support.engine import Memory
from tests.support.examples import QUICK
from tests.support.feeds import TiCDC
from tests.support.source_model import History


@QUICK
@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.randoms(use_true_random=False))
def test_from_the_floor_on_every_table_is_the_same_also_where_floors_rise(
    seed: int, count: int, chance: random.Random
) -> None:
    history = History(seed, count)
    silver = Memory("ticdc-open").add(
        Feed(history.events, random.Random(seed), 2, "table").arrival(random.Random(seed))
    )
    lineages, changes = silver._lineages()
    states = [(0, ts, 2, 0, 0, 0) for ts, _ in history.states[1:]]
    floors = sorted(chance.sample(states, min(len(states), chance.choice((1, 2)))))
    later = [state for state in states if state >= floors[-1]]
    expected = [silver.tables(state) for state in later]

    for floor in map(just_below, floors):
        for one in lineages.lineages:
            assert needs_log(one, floor) is None
            mine = changes.get(one.id, [])
            kept = [change for change in mine if change.position > floor]
            below = compacted(
                one, [change for change in mine if change.position <= floor], floor, silver.upstream
            )
            assert len(below) <= len(mine)
            changes[one.id] = [*below, *kept]

    assert [silver.tables(state) for state in later] == expected


def test_tables_that_need_their_log_say_why() -> None:
    unseen = Memory("ticdc-canal-json").add(CanalFeed().put("t", {"id": 1}).resolved().messages)
    feed = (
        CanalFeed()
        .ddl("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
        .ddl("ALTER TABLE t DROP COLUMN a")
        .ddl("ALTER TABLE t WOBBLE")
    )
    known = Memory("ticdc-canal-json").add(feed.resolved().messages)
    keeping = Rules({("d", "t"): {"drop_column": "ignore"}})

    def reason(silver: Memory, at: int) -> str | None:
        return needs_log(silver.history().lineages[0], just_below((0, at, 3, 0, 0, 0)))

    assert reason(unseen, 2000) == "its schema is inferred from its rows"
    assert reason(known, 1020) is None
    assert reason(known, 1030) == "a DDL below the floor holds it"
    assert reason(known.ruled(keeping), 1020) == "gold keeps columns that the source has dropped"
    assert reason(known, 1010) is None


def test_a_table_whose_rows_may_be_of_later_than_the_floor_keeps_its_log() -> None:
    """An insert above the floor of a row that was read before would not fit the floor's row."""
    (lineage,) = Memory("ticdc-canal-json").add(CanalFeed().ddl(CREATE).messages).history().lineages
    begun, settled = (0, 2000, 2, 0, 0, 0), (0, 3000, 2, 0, 0, 0)
    lineage.unsettled[begun] = settled
    why = "rows of it were read while it changed, and the floor is not past the end of that"

    assert needs_log(lineage, just_below(begun)) is None
    assert needs_log(lineage, just_below(settled)) == why
    assert needs_log(lineage, settled) is None
    schema = lineage.steps[-1].schema
    lineage.steps.append(Step((0, 2500, 2, 0, 0, 0), schema, (Clear(),), "TRUNCATE TABLE t"))
    assert needs_log(lineage, just_below(settled)) is None


def of_canal(*statements: str) -> list[Lineage]:
    """The lineages of a feed that begins with a row of t, then has these statements, then a row of t."""
    feed = CanalFeed().put("t", {"id": 1})
    for statement in statements:
        feed.ddl(statement)
    return Memory("ticdc-canal-json").add(feed.put("t", {"id": 2}).resolved().messages).history().lineages


CREATE = "CREATE TABLE t (id INT PRIMARY KEY)"


def test_a_table_that_is_dropped_below_the_floor_needs_no_log() -> None:
    first, second = of_canal("DROP TABLE t", CREATE)
    assert second.end is None and first.end is not None
    above = just_below((0, 9000, 3, 0, 0, 0))
    assert (needs_log(first, above), needs_log(second, above)) == (None, None)
    assert needs_log(first, just_below(first.end)) == "its schema is inferred from its rows"


def test_a_table_whose_drop_is_held_keeps_its_log() -> None:
    """The DROP may be skipped yet."""
    feed = CanalFeed().ddl(CREATE).put("t", {"id": 1}).ddl("DROP TABLE t")
    silver = Memory("ticdc-canal-json").add(feed.resolved().messages)
    holding = Rules({("d", "t"): {"drop_table": "hold"}})

    (held,) = silver.ruled(holding).history().lineages

    assert needs_log(held, just_below((0, 9000, 3, 0, 0, 0))) == "a DDL below the floor holds it"


def test_a_table_that_comes_back_above_the_floor_keeps_its_log() -> None:
    (recovered,) = of_canal("DROP TABLE t", "RECOVER TABLE t")
    dropped, back = recovered.intervals[0].high, recovered.intervals[1].low
    assert dropped is not None
    assert needs_log(recovered, dropped) == "it is dropped at the floor and comes back above it"
    assert needs_log(recovered, back) == "its schema is inferred from its rows"


def test_a_table_keeps_its_log_where_another_one_of_its_name_does() -> None:
    """What arrives below a floor is refused by name, also of the one that keeps its log."""
    renamed, second = of_canal("RENAME TABLE t TO u", CREATE)
    floor = just_below((0, 9000, 3, 0, 0, 0))
    why = "a table that has had its name keeps its log"
    assert with_namesakes({renamed.id: "…"}, [renamed, second], floor) == {renamed.id: "…", second.id: why}
    assert with_namesakes({}, [renamed, second], floor) == {}
    assert with_namesakes({renamed.id: "…"}, [renamed, second], second.start) == {renamed.id: "…"}


def test_a_floor_below_a_tables_beginning_is_that_of_an_earlier_one() -> None:
    first, second = of_canal("DROP TABLE t", CREATE)
    assert first.end is not None
    floors = {("d", "t"): first.end}
    assert (first.reaches_below(floors), second.reaches_below(floors)) == (True, False)
    assert second.reaches_below({("d", "t"): (0, 9000, 0, 0, 0, 0)})


FLOOR = just_below((0, 50, 3, 0, 0, 0))


def folded_at_the_floor(told: Memory, other: Memory) -> bool:
    """Whether the rows that were folded at the floor under some rules are those of another fold by now."""
    (one,), changes = told._lineages()[0].lineages, told._lineages()[1]
    mine = changes[one.id]
    below = compacted(one, [each for each in mine if each.position <= FLOOR], FLOOR, told.upstream)
    expected = other.tables(other.reach)
    other._lineages()[1][one.id] = [*below, *(each for each in mine if each.position > FLOOR)]
    return other.tables(other.reach) == expected


@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        ("truncate_table", "TRUNCATE TABLE t"),
        ("modify_column", "ALTER TABLE t MODIFY a INT"),
        ("drop_table", "DROP TABLE t"),
        ("drop_column", "ALTER TABLE t DROP COLUMN a"),
    ],
)
def test_what_a_floor_has_folded_under_another_on_ddl_is_told(kind: str, statement: str) -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9))").insert(2, id=1, a="1.5")
    feed.ddl(10, statement).row(60, "INSERT", {"id": 2}, types={"id": "int"})
    ignoring = Rules({("d", "t"): {kind: "ignore"}})

    def under(rules: Rules) -> str:
        (one,) = feed.memory.ruled(rules).history().lineages
        return folded_under(one, FLOOR, Upstream())

    assert under(ignoring) != under(Rules())
    assert not folded_at_the_floor(feed.memory.ruled(Rules()), feed.memory.ruled(ignoring))
    assert under(Rules({("d", "t"): {"alter_default": "ignore", kind: "evolve"}})) == under(Rules())


def test_what_a_floor_has_folded_under_another_key_or_server_is_told() -> None:
    """The server counts where it had to convert values, and what comes above the floor nowhere."""

    def under(*statements: str, upstream: Upstream = Upstream(), key: tuple[str, ...] = ()) -> str:
        feed = TiCDC().ddl(1, "CREATE TABLE t (id INT, a VARCHAR(9))")
        for number, statement in enumerate(statements):
            feed.ddl(10 + number, statement)
        (one,) = feed.ddl(60, "TRUNCATE TABLE t").memory.history().lineages
        one.key_names = key
        return folded_under(one, FLOOR, upstream)

    old = Upstream(version=(5, 7))
    assert len({under(), under(key=("id",)), under(key=("id", "a")), under("TRUNCATE TABLE t")}) == 4
    assert under(upstream=old) == under()
    assert under("ALTER TABLE t MODIFY a INT", upstream=old) != under("ALTER TABLE t MODIFY a INT")
    assert under(upstream=Upstream(charset="gbk")) != under()
    (one,) = TiCDC().ddl(1, "CREATE TABLE t (id INT, a VARCHAR(9))").memory.history().lineages
    assert folded_under(one, FLOOR, Upstream()) == under(), "what is above counts nowhere"
