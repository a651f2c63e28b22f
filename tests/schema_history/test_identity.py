"""A lineage keeps the id that it was given, and gold's table its name, in whatever order its history becomes
known.
"""

from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.events import Message
from lakehouse.gold.table_names import Live, Made, holders
from lakehouse.lineage import History, Name
from lakehouse.ops.records.gold import Beginning
from lakehouse.schema_history.identity import beginning_of, lineage_at, with_known_ids
from tests.support.engine import Memory
from tests.support.feeds import TiCDC

CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY)"


class Gold:
    """What gold keeps from run to run: the ids that it gave, and its Delta tables."""

    def __init__(self) -> None:
        self.begun: list[Beginning] = []
        self.tables: list[Made] = []

    def history(self, messages: Iterable[Message]) -> History:
        return with_known_ids(Memory("ticdc-canal-json").add(messages).history(), self.begun)

    def runs(self, messages: Sequence[Message]) -> dict[Name, tuple[str, str]]:
        """One run over all that has arrived: the id and the Delta table of each live table."""
        if not messages:
            return {}
        history, reach = self.history(messages), Memory("ticdc-canal-json").add(messages).reach
        known = {one.lineage for one in self.begun}
        self.begun += [beginning_of(one) for one in history.lineages if one.id not in known]
        now = {name: lineage.id for name, lineage in history.live(reach).items()}
        has = holders(self.tables, [Live(one, name, "__".join(name)) for name, one in now.items()])
        by_gold = {table.gold: table for table in self.tables}
        for name, one in now.items():
            gold = has.get(one) or "__".join(name)
            by_gold[gold] = Made(gold, one, *by_gold[gold][2:]) if gold in by_gold else made(gold, one, name)
        self.tables = list(by_gold.values())
        return {
            name: (one, next(t.gold for t in self.tables if t.lineage == one)) for name, one in now.items()
        }


def made(gold: str, lineage: str, name: Name) -> Made:
    return Made(gold, lineage, name, gold)


def test_a_create_that_comes_late_changes_no_identity() -> None:
    feed, gold = TiCDC().insert(20, id=1).ddl(10, CREATE), Gold()
    assert gold.runs(feed.messages[:1]) == {("d", "t"): ("d.t@0", "d__t")}
    assert gold.runs(feed.messages) == {("d", "t"): ("d.t@0", "d__t")}


def test_a_create_above_the_first_rows_begins_another_table_under_the_name() -> None:
    feed, gold = TiCDC().insert(20, id=1).insert(40, id=2).ddl(30, CREATE), Gold()
    gold.runs(feed.messages[:2])
    assert gold.runs(feed.messages) == {("d", "t"): ("d.t@0.30.2", "d__t")}
    ended = lineage_at(gold.history(feed.messages).lineages, ("d", "t"), (0, 20, 1, 0, 0, 0))
    assert ended is not None and (ended.id, ended.end) == ("d.t@0", (0, 30, 2, 0, 0, 0))


def test_no_id_is_given_twice() -> None:
    """Rows are seen, then a CREATE below them, then rows below the CREATE: the first ones keep the id."""
    feed, gold = TiCDC().insert(20, id=1).ddl(15, CREATE).insert(10, id=0), Gold()
    for count in (1, 2, 3):
        assert gold.runs(feed.messages[:count]) == {("d", "t"): ("d.t@0", "d__t")}
    assert [one.id for one in gold.history(feed.messages).lineages] == ["d.t@0~", "d.t@0"]


def test_two_lives_that_turn_out_to_be_one_have_the_id_that_was_given_first() -> None:
    """Of a DROP and CREATE that an operator has skipped."""
    first = Beginning("first", "d", "t", (0, 10, 2, 0, 0, 0))
    second = Beginning("second", "d", "t", (0, 30, 1, 0, 0, 0))
    feed = TiCDC().ddl(10, CREATE).insert(30, id=1)
    history = with_known_ids(Memory("ticdc-canal-json").add(feed.messages).history(), [first, second])
    assert [one.id for one in history.lineages] == ["first"]


@st.composite
def feeds(draw: st.DrawFn) -> tuple[list[Message], list[int]]:
    """The life of a name: rows, DROP and CREATE; and an order in which it becomes known."""
    feed, at = TiCDC(), 0
    for _ in range(draw(st.integers(1, 3))):
        lines = draw(st.lists(st.sampled_from(["row", "row", "alter"]), min_size=1, max_size=3))
        told = ["create", *lines, "drop"]
        for number, line in enumerate(told):
            at += 10
            match line:
                case "row":
                    feed.insert(at, id=at)
                case "alter":
                    feed.ddl(at, f"ALTER TABLE `t` ADD COLUMN `c{at}_{number}` INT")
                case "create":
                    feed.ddl(at, CREATE)
                case "drop":
                    feed.ddl(at, "DROP TABLE `t`")
    count = len(feed.messages) - draw(st.integers(0, 1))
    return feed.messages[:count], draw(st.permutations(range(count)))


@given(feeds(), st.data())
def test_in_any_order_a_table_keeps_its_id_and_its_delta_table(
    told: tuple[list[Message], list[int]], data: st.DataObject
) -> None:
    messages, order = told
    gold, arrived = Gold(), list[Message]()
    for index in order:
        arrived.append(messages[index])
        if not data.draw(st.booleans()) and len(arrived) < len(messages):
            continue
        published = gold.runs(arrived)
        assert {table for _, table in published.values()} <= {"d__t"}
        given_ids = [one.id for one in gold.history(arrived).lineages]
        assert len(set(given_ids)) == len(given_ids)
    at_once = Gold().runs(messages)
    assert {name: table for name, (_, table) in published.items()} == {
        name: table for name, (_, table) in at_once.items()
    }
    history = gold.history(messages)
    for one in gold.begun:
        found = lineage_at(history.lineages, (one.database, one.table), one.position)
        first = next(b for b in gold.begun if lineage_at(history.lineages, ("d", "t"), b.position) is found)
        assert found is None or found.id == first.lineage
