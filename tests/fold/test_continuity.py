"""Which changes do not fit those before them, and which only seem not to (docs/continuity.md)."""

import random
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.ddl.policy import Rules
from lakehouse.events import Position
from lakehouse.fold.continuity import ANOTHER_ROW, INSERTED_TWICE, NOT_THERE, Breaks, Continuity
from lakehouse.fold.current_rows import _pieces, breaks_among, fold
from lakehouse.fold.row_edits import PARTIAL_AFTER, REJECTED, Change, ChangeReader, row_key
from lakehouse.fold.row_history import row_history
from lakehouse.fold.steps import target_step
from lakehouse.fold.upcast import Upstream
from lakehouse.lineage import Interval, Lineage, Step, key_ids
from lakehouse.schema import Column, make_schema, parse_type
from tests.fold.test_versions import lineages, told
from tests.support.damage import damaged
from tests.support.feeds import Debezium, TiCDC
from tests.support.source_model import History

seeds = st.integers(0, 2**32 - 1)
BINLOG = Upstream(continuity=Continuity(rows=True, inserts=True))
TIDB = Upstream(continuity=Continuity(rows=True, inserts=True, by_commit=True))
CREATE = "CREATE TABLE `t` (`id` int PRIMARY KEY, `v` varchar(9), `f` float)"
START: Position = (0, 1, 0, 0, 0, 0)


def lineage(ddl: str | None = CREATE) -> Lineage:
    columns = [Column(0, "id", parse_type("int")), Column(0, "v", parse_type("varchar(9)"))]
    schema = make_schema([*columns, Column(0, "f", parse_type("float"))], ("id",))
    return Lineage("d.t@1", [Step(START, schema, (), ddl)], [Interval(("d", "t"), START, None)])


def image(v: str, f: float = 0.5) -> dict[str, Any]:
    return {"id": 7, "v": v, "f": f}


def at(*parts: int) -> Position:
    epoch, first, second = (*parts, 0)[:3]
    return (epoch, first, second, 0, 0, 0)


def insert(position: Position, v: str = "a", **more: Any) -> Change:
    return Change(position, "insert", None, image(v), "canonical", **more)


def update(position: Position, old: str, new: str, **more: Any) -> Change:
    return Change(position, "update", image(old), image(new), "canonical", **more)


def delete(position: Position, v: str = "a") -> Change:
    return Change(position, "delete", image(v), None, "canonical")


def snapshot(position: Position, *flags: str) -> Change:
    return Change(position, "snapshot", None, image("a"), "canonical", flags=("snapshot", *flags))


def found(*changes: Change, table: Lineage | None = None, upstream: Upstream = BINLOG) -> Breaks:
    """What the fold finds; so does a table's history."""
    table = table or lineage()
    breaks = fold(table, changes, at(9, 0), upstream).breaks
    by_commit = upstream.continuity.by_commit
    assert row_history(table, changes, at(9, 0), upstream, by_commit=by_commit).breaks == breaks
    return breaks


def what(*changes: Change, **more: Any) -> str | None:
    first = found(*changes, **more).first
    return None if first is None else first.what


def test_changes_that_follow_each_other_fit() -> None:
    story = [insert(at(0, 2)), update(at(0, 3), "a", "b"), delete(at(0, 4), "b"), insert(at(0, 5))]

    assert found(*story) == Breaks()


def test_a_break_has_both_places_and_a_hash_of_the_key() -> None:
    breaks = found(insert(at(0, 2)), insert(at(0, 4), "b"), update(at(0, 6), "c", "d"))

    assert breaks.total == 2
    assert str(breaks.first) == "an insert of a row that is there: key 589ffd3acf52, at 0.4 after 0.2"


def test_a_first_change_is_held_against_the_create_only_where_the_feed_has_it() -> None:
    assert what(update(at(0, 2), "a", "b")) == what(delete(at(0, 2))) == NOT_THERE
    for ddl in (None, "CREATE TABLE IF NOT EXISTS `t` (`id` int PRIMARY KEY)"):
        assert what(update(at(0, 2), "a", "b"), table=lineage(ddl)) is None


def test_a_part_of_the_changes_says_nothing_of_what_was_before() -> None:
    changes = [update(at(0, 2), "a", "b"), delete(at(0, 4), "c")]

    assert fold(lineage(), changes[:1], at(9, 0), BINLOG, whole=False).breaks == Breaks()
    breaks = fold(lineage(), changes, at(9, 0), BINLOG, whole=False).breaks
    assert breaks.first is not None and breaks.first.what == ANOTHER_ROW


def test_the_history_of_a_part_says_nothing_either_unless_the_rows_before_are_known() -> None:
    """A run whose rows gold does not have: an expectation has refused them."""
    changes = [update(at(0, 4), "a", "b")]

    part = row_history(lineage(), changes, at(9, 0), BINLOG, by_commit=False, whole=False)
    assert part.breaks == Breaks()
    part = row_history(lineage(), changes, at(9, 0), BINLOG, by_commit=False, whole=False, since=at(0, 3))
    assert str(part.breaks.first).endswith("at 0.4 after 0.3")


def test_an_update_without_its_old_image_says_nothing_of_the_row_before() -> None:
    change = Change(at(0, 2), "update", None, image("b"), "canonical")

    assert what(change) is None
    assert what(change, update(at(0, 3), "c", "d")) == ANOTHER_ROW


def test_an_insert_of_a_part_of_a_row_says_that_the_row_was_not_there() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))").insert(2, id=1, v="a")
    memory = feed.insert(3, id=1).memory
    [(lineage, [first, second])] = lineages(memory)
    changes = [first, second._replace(flags=(PARTIAL_AFTER,))]
    upstream = memory.upstream._replace(continuity=Continuity(rows=True, inserts=True))

    folded = fold(lineage, changes, memory.reach, upstream)
    history = row_history(lineage, changes, memory.reach, upstream, by_commit=False)

    assert folded.breaks.first is not None and folded.breaks.first.what == INSERTED_TWICE
    assert history.breaks == folded.breaks


def test_changes_of_one_commit_are_not_held_against_each_other() -> None:
    # a transaction that was sent as an update, and again cut into a delete and an insert
    changes = [insert(at(0, 2, 1)), delete(at(0, 3, 0)), update(at(0, 3, 1), "a", "b")]

    assert what(*changes, upstream=TIDB) is None
    assert what(*changes, upstream=BINLOG) == NOT_THERE


def test_the_first_of_several_changes_of_a_commit_says_nothing_of_the_row_before_it() -> None:
    # an insert that was sent again as a delete and an insert
    changes = [delete(at(0, 2, 0)), insert(at(0, 2, 1))]

    assert what(*changes, upstream=TIDB) is None
    assert what(*changes, upstream=BINLOG) == NOT_THERE
    assert what(*changes, delete(at(0, 3)), delete(at(0, 4)), upstream=TIDB) == NOT_THERE


def test_another_epoch_begins_with_nothing_known() -> None:
    assert what(insert(at(0, 2)), insert(at(1, 2), "b")) is None
    assert what(delete(at(1, 2), "b")) is None


def test_a_row_of_a_snapshot_is_there_but_its_cells_are_not_compared() -> None:
    assert what(snapshot(at(0, 2)), update(at(0, 3), "b", "c")) is None
    assert what(snapshot(at(0, 2)), insert(at(0, 3))) == INSERTED_TWICE
    assert what(insert(at(0, 2), "b"), snapshot(at(0, 3)), update(at(0, 4), "c", "d")) is None


def test_after_a_row_of_an_incremental_snapshot_nothing_is_known() -> None:
    assert what(snapshot(at(0, 2), "snapshot=incremental"), insert(at(0, 3))) is None


def test_a_delete_of_an_incremental_snapshot_says_nothing_of_the_changes_around_it() -> None:
    gone = Change(
        at(0, 3), "delete", {"id": 7}, None, "canonical", flags=("snapshot", "snapshot=incremental")
    )

    assert what(gone) is None
    assert what(insert(at(0, 2)), gone, insert(at(0, 4))) is None
    assert what(insert(at(0, 1)), delete(at(0, 2)), gone) is None
    assert what(insert(at(0, 2)), gone, delete(at(0, 4))) is None


def test_floating_point_is_not_compared() -> None:
    changed = Change(at(0, 3), "update", image("a", 0.1), image("b", 0.2), "canonical")

    assert what(insert(at(0, 2)), changed) is None


def test_images_of_two_encodings_or_schema_steps_are_not_compared() -> None:
    later = lineage()
    later.steps.append(replace(later.steps[0], position=at(0, 3), ddl="ALTER TABLE `t` COMMENT ''"))
    changed = update(at(0, 4), "x", "y")

    assert what(insert(at(0, 2)), changed) == ANOTHER_ROW
    assert what(insert(at(0, 2)), changed, table=later) is None
    assert what(insert(at(0, 2)), changed._replace(encoding="canal")) is None


def test_an_image_that_an_expectation_refuses_is_the_sources_row_all_the_same() -> None:
    refused = insert(at(0, 2), flags=(REJECTED,))

    assert what(refused, update(at(0, 3), "a", "b")) is None
    assert what(refused, insert(at(0, 3))) == INSERTED_TWICE


def test_a_change_of_key_is_held_against_both_rows() -> None:
    moved = Change(at(0, 3), "update", image("a"), {**image("a"), "id": 8}, "canonical")
    behind = Change(at(0, 4), "delete", {**image("a"), "id": 8}, None, "canonical")

    assert what(insert(at(0, 2)), moved, behind) is None
    assert what(insert(at(0, 2)), moved, insert(at(0, 4)), delete(at(0, 5))) is None
    assert what(insert(at(0, 2)), moved, delete(at(0, 4))) == NOT_THERE


def test_a_table_of_which_a_statement_was_ignored_is_not_looked_at() -> None:
    table = lineage()
    table.overruled = True

    assert what(insert(at(0, 2)), insert(at(0, 3)), table=table) is None


def test_a_feed_that_says_nothing_is_not_looked_at() -> None:
    assert what(insert(at(0, 2)), insert(at(0, 3)), upstream=Upstream()) is None


def test_debezium_skips_a_truncate_and_the_rows_that_come_back_tell() -> None:
    feed = Debezium().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    feed.change(2, "c", None, {"id": 1, "v": "a"}).change(3, "c", None, {"id": 1, "v": "b"})
    memory = feed.memory

    assert memory.tables(memory.reach) == {"d.t": [{"id": 1, "v": "b"}]}
    assert memory.breaks["d.t"].total == 1


def test_a_truncate_that_the_yaml_ignores_is_no_loss() -> None:
    feed = Debezium().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    feed.change(2, "c", None, {"id": 1, "v": "a"}).ddl(3, "TRUNCATE TABLE t")
    feed.change(4, "c", None, {"id": 1, "v": "b"})
    memory = feed.memory.ruled(Rules(policies={("d", "t"): {"truncate_table": "ignore"}}))

    assert memory.tables(memory.reach) == {"d.t": [{"id": 1, "v": "b"}]}
    assert memory.lineages().lineages[0].overruled and memory.breaks == {}


def test_an_update_that_is_sent_as_an_insert_is_no_second_insert() -> None:
    feed = TiCDC().ddl(1, "CREATE TABLE t (id INT PRIMARY KEY)").insert(2, id=1).insert(3, id=1)
    memory = feed.memory

    assert memory.tables(memory.reach)["d.t"] == [{"id": 1}]
    assert memory.breaks == {}


@settings(max_examples=80, deadline=None)
@given(seed=seeds, count=st.integers(0, 25), chance=seeds)
def test_the_fold_finds_what_a_look_at_every_change_finds(seed: int, count: int, chance: int) -> None:
    memory, rand = told(History(seed, count), chance), random.Random(chance)
    continuity = Continuity(rows=True, inserts=chance % 3 > 0, by_commit=chance % 2 == 0)
    upstream = memory.upstream._replace(continuity=continuity)

    for table, every in lineages(memory):
        changes, reach = [refused(change, rand) for change in damaged(every, rand)], memory.reach
        for whole in (True, False):
            exact = of_every_key(table, changes, reach, upstream, whole=whole)
            assert fold(table, changes, reach, upstream, whole=whole).breaks == exact
        history = row_history(table, changes, reach, upstream, by_commit=continuity.by_commit)
        assert history.breaks == of_every_key(table, changes, reach, upstream, whole=True)


def refused(change: Change, chance: random.Random) -> Change:
    """The change, sometimes one that an expectation refuses."""
    is_refused = change.after is not None and chance.random() < 0.1
    return change._replace(flags=(*change.flags, REJECTED)) if is_refused else change


def of_every_key(
    table: Lineage, changes: list[Change], reach: Position, upstream: Upstream, *, whole: bool
) -> Breaks:
    """The breaks of all keys, without a fold that says which look odd."""
    ordered = sorted(changes, key=lambda change: change.position)
    keys = set()
    for piece, mine in _pieces(table, ordered, target_step(table, reach), upstream=upstream, whole=whole):
        ids = key_ids(table, piece.end)
        edits = ChangeReader(table, piece.end, upstream, ids).read(mine).edits if ids else []
        keys |= {key for edit in edits if (key := row_key(edit.row, ids)) is not None}
    return breaks_among(table, changes, reach, upstream, keys=keys, whole=whole)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, count=st.integers(0, 25), chance=seeds, raw=st.booleans())
def test_a_feed_that_loses_nothing_has_no_break_whatever_is_sent_again(
    seed: int, count: int, chance: int, raw: bool
) -> None:
    memory = told(History(seed, count, raw_updates=raw), chance, restarts=chance % 3)
    upstream = memory.upstream._replace(continuity=TIDB.continuity)

    for table, changes in lineages(memory):
        assert fold(table, changes, memory.reach, upstream).breaks == Breaks()
