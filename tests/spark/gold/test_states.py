"""The state of a table by what is known to be missing: of the table itself, or of its source. Needs Spark's
package, but no session.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.events import Message
from lakehouse.lineage import Held, Lineage, Name
from lakehouse.ops.records.bronze import MissingFile
from lakehouse.ops.records.operators import Epoch
from lakehouse.spark.gold.entries import EXACT, State, state_of
from lakehouse.spark.ops.gold_names import renamed
from tests.support.feeds import TiCDC

CREATE = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10))"
BEFORE, AT = (0, 4, 2, 0, 0, 0), (0, 9, 2, 0, 0, 0)


def tables(*, truncated: int | None = None) -> dict[str, Lineage]:
    """Two tables; `truncated`: the epoch in which a TRUNCATE empties the first."""
    feed = TiCDC().ddl(1, CREATE).ddl(1, CREATE.replace("TABLE t", "TABLE u"), table="u")
    memory = feed.memory
    if truncated is not None:
        told = TiCDC().ddl(2, "TRUNCATE TABLE t").messages[0]
        memory.add([Message("topic", 0, 9, None, told.value, epoch=truncated)])
    history = memory.history()
    return {name[1]: one for name, one in history.live((9, 9, 2, 0, 0, 0)).items()}


def states(told: dict[str, Lineage] | None = None, at: Any = AT, **known: Any) -> list[State]:
    """The states of t and u in a run that knows no more than is said."""
    nothing: dict[str, Any] = {
        "epochs": (),
        "dead": {},
        "disproved": {},
        "losses": (),
        "missing": (),
        "entries": {},
    }
    window = SimpleNamespace(position=at, position_before=BEFORE)
    run: Any = SimpleNamespace(**{**nothing, "window": window, **known})
    found = told or tables()
    return [state_of(run, found[name], at, held=None, lacking={}) for name in "tu"]


def test_a_table_of_which_nothing_is_known_to_be_missing_is_exact() -> None:
    assert states() == [EXACT, EXACT]


def test_dead_letters_of_a_table_leave_the_others_exact_and_those_of_no_known_table_none() -> None:
    assert states(dead={("d", "t"): 2}) == [State("incomplete", BEFORE, "2 dead letters"), EXACT]
    noise = State("incomplete", BEFORE, "1 dead letters of unknown tables in the source")
    assert states(dead={None: 1}) == [noise, noise]


def test_what_the_source_has_lost_leaves_no_table_exact() -> None:
    assert states(losses=("gone",)) == [State("incomplete", BEFORE, "gone")] * 2


def test_a_file_that_the_sink_lacks_is_one_tables_or_every_ones() -> None:
    def missing(table: Name | None) -> list[str]:
        file = MissingFile("t/CDC2.csv", table, (0, 5, 2, 0, 0, 0))
        return [one.state for one in states(missing=(file,))]

    assert missing(("d", "t")) == ["incomplete", "exact"]
    assert missing(None) == ["incomplete", "incomplete"]


def test_a_target_that_a_yaml_names_once_the_table_is_there_is_told_to_have_no_effect() -> None:
    note = "gold.target: orders is a name for a new table; this one stays shop__orders"

    assert renamed("shop__orders", "shop__orders", "orders") == [note]
    assert renamed("orders", "orders", "orders") == renamed("shop__orders", "shop__orders", None) == []
    taken = "orders is another table's name in gold, this one is orders_2"
    assert renamed("orders_2", "orders", "orders") == [taken]


@pytest.mark.parametrize(
    ("restored_to", "goes_on", "state"),
    [(None, False, "incomplete"), (7, False, "exact"), (None, True, "exact")],
)
def test_an_epoch_leaves_every_table_incomplete_unless_it_says_what_is_void_or_goes_on(
    restored_to: int | None, goes_on: bool, state: str
) -> None:
    epoch = Epoch(epoch=1, places=(), why="failover", restored_to=restored_to, goes_on=goes_on)

    assert [one.state for one in states(at=(1, 9, 2, 0, 0, 0), epochs=(epoch,))] == [state, state]
    assert states(epochs=(epoch,)) == [EXACT, EXACT], "below the epoch nothing has changed"


def test_a_table_that_is_emptied_in_an_epoch_is_exact_again() -> None:
    epoch = Epoch(epoch=1, places=(), why="failover")

    found = states(tables(truncated=1), at=(1, 9, 2, 0, 0, 0), epochs=(epoch,))

    assert [one.state for one in found] == ["exact", "incomplete"]


def test_a_held_table_is_behind_whatever_else_is_missing() -> None:
    run: Any = SimpleNamespace(window=SimpleNamespace(position=AT))
    held = Held((0, 5, 2, 0, 0, 0), "on_ddl says hold for drop_column", "ALTER TABLE t DROP COLUMN a")

    found = state_of(run, tables()["t"], BEFORE, held=held, lacking={"rows": BEFORE})

    assert found == State("behind", BEFORE, "held by a DDL: on_ddl says hold for drop_column")
