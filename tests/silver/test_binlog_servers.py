"""A change of the binlog's server is told wherever positions lose their order, and nowhere else."""

import random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.events import Message, SchemaChange, Watermark
from lakehouse.formats.binlog import server_of, server_of_snapshot
from lakehouse.ops.records.operators import Epoch
from lakehouse.silver.batch_summary import from_bytes, merged, summarise, to_bytes
from lakehouse.silver.binlog_servers import Stretches, change_text, standing, updated_servers
from lakehouse.spark.silver.columns import CHANGE_COLUMNS

NO_CHANGES: dict[str, list[Any]] = {name: [] for name in CHANGE_COLUMNS}
Row = tuple[str, int, int, str, int]  # topic, offset, server id, file, position


def collected(rows: list[Row], *, epoch: int = 0, shard: str = "") -> list[Any]:
    found = Stretches(ordered=False)
    for topic, offset, server_id, file, position in rows:
        headers = (("ShardId", shard.encode()),) if shard else ()
        at = (epoch, int(file.rpartition(".")[2]), position, 1, 0, 0)
        server = server_of(server_id, file) if server_id >= 0 else (server_id, file.rpartition(".")[0])
        event = SchemaChange("ddl", "d", None, None, at, "", 0, server=server)
        found.add(
            Message(topic, 0, offset, None, None, headers, epoch=epoch), [event, Watermark(at, None, 1)]
        )
    return found.take()


def changes(*batches: list[Row]) -> list[tuple[Any, ...]]:
    known = None
    for rows in batches:
        known = updated_servers(known, collected(rows))
    return [(c.topic, c.offset, c.was, c.server, c.base) for c in (known.changes if known else ())]


def test_t19_a_new_server_below_the_highest_position_is_a_change_in_one_batch_or_two() -> None:
    before, after = (
        [("a", 0, 1, "bin.000007", 100)],
        [("a", 1, 2, "bin.000003", 900), ("a", 2, 2, "bin.000003", 950)],
    )

    assert (
        changes(before, after)
        == changes(before + after)
        == changes(before, after, after)
        == [("a", 1, 1, 2, "bin")]
    )
    assert changes([("a", 0, 1, "bin.000007", 100)], [("a", 1, 2, "bin.000007", 99)]) == [
        ("a", 1, 1, 2, "bin")
    ]


def test_t19_another_base_name_is_a_change_wherever_its_positions_are() -> None:
    before = [("a", 0, 1, "one.000007", 100)]

    assert changes(before, [("a", 1, 2, "two.000009", 5)]) == [("a", 1, 1, 2, "two")]
    assert changes(before, [("b", 0, 1, "two.000009", 5)]) == [("b", 0, None, 1, "two")]


def test_a_replay_goes_back_with_known_ids_and_is_none() -> None:
    rows = [
        ("a", 0, 1, "bin.000006", 5),
        ("a", 1, 1, "bin.000007", 100),
        ("a", 2, 1, "bin.000006", 5),
        ("a", 3, 1, "bin.000007", 100),
    ]

    assert changes(rows) == changes(rows[:2], rows[2:]) == []


def test_t19_a_server_that_comes_back_below_another_is_a_change() -> None:
    """The one between had higher positions, so nothing told of it; the same holds for two that are mixed."""
    rows = [
        ("a", 0, 1, "bin.000007", 100),
        ("a", 1, 2, "bin.000009", 50),
        ("a", 2, 1, "bin.000008", 10),
        ("a", 3, 1, "bin.000008", 20),
        ("a", 4, 2, "bin.000009", 60),
    ]
    told = [("a", 2, 2, 1, "bin")]

    assert changes(rows) == changes(rows[:2], rows[2:]) == changes(*([row] for row in rows)) == told


def test_a_replicas_several_ids_each_first_met_above_are_none() -> None:
    rows = [
        ("a", 0, 1, "bin.000006", 5),
        ("a", 1, 2, "bin.000006", 10),
        ("a", 2, 1, "bin.000006", 20),
        ("a", 3, 3, "bin.000007", 4),
    ]

    assert (
        changes(rows)
        == changes(*([row] for row in rows))
        == changes(rows, [(t, o + 4, server, file, place) for t, o, server, file, place in rows])
        == []
    )


def test_a_full_snapshot_below_what_came_before_it_is_of_a_binlog_that_began_anew() -> None:
    """RESET MASTER: the server's own id goes on, at places that a restarted connector may go back to."""

    def snapshot(offset: int, file: str, place: int) -> Row:
        return "a", offset, server_of_snapshot(file, place)[0], file, place

    before = [snapshot(0, "bin.000004", 20), ("a", 1, 1, "bin.000007", 100)]
    anew = [snapshot(2, "bin.000001", 157), ("a", 3, 1, "bin.000001", 200)]

    [(topic, offset, was, server, base)] = changes(before, anew)
    assert (topic, offset, was, base) == ("a", 2, 1, "bin")
    assert server < 0
    assert changes(before + anew) == changes(before, anew)
    assert changes(before, before, [snapshot(2, "bin.000008", 4)]) == []
    [change] = updated_servers(updated_servers(None, collected(before)), collected(anew)).changes  # type: ignore[union-attr]
    assert "(a snapshot below what came before it, file bin 1)" in change_text("shop", change)


def test_a_server_id_of_zero_says_nothing() -> None:
    assert server_of(0, "two.000001") is None and server_of(None, "two.000001") is None
    assert changes([("a", 0, 1, "bin.000007", 100)], [("a", 1, 0, "two.000001", 5)]) == []


def test_a_topic_that_lags_is_looked_at_by_itself() -> None:
    ahead = [("a", 0, 1, "bin.000009", 5), ("a", 1, 2, "bin.000009", 50)]
    behind = [("b", 0, 1, "bin.000003", 5), ("b", 1, 2, "bin.000004", 9)]

    assert changes(ahead, behind) == []


def test_a_server_met_first_where_nothing_tells_is_told_where_it_is_lower() -> None:
    before, rare = (
        [("a", 0, 1, "bin.000009", 5), ("b", 0, 1, "bin.000002", 5)],
        [("b", 1, 2, "bin.000003", 5)],
    )

    assert changes(before, rare, [("a", 1, 2, "bin.000003", 6)]) == [("a", 1, 1, 2, "bin")]


def test_of_several_shards_no_positions_can_be_compared_which_is_told_once_an_epoch() -> None:
    one, two = (
        collected([("a", 0, 1, "bin.000009", 5), ("a", 2, 1, "bin.000009", 9)], shard="1"),
        collected([("a", 1, 2, "bin.000002", 5), ("a", 3, 2, "bin.000002", 9)], shard="2"),
    )
    alone = updated_servers(updated_servers(None, one[:1]), one)
    both = updated_servers(updated_servers(None, one), [*two, *one, *two])
    assert alone is not None and both is not None

    assert alone.changes == ()
    [change] = both.changes
    assert (change.shard, change.beside, change.offset) == ("2", "1", 1)
    assert "several shards (1, and 2 from a/0 offset 1 on)" in change_text("s", change)
    later = collected([("a", 4, 1, "bin.000009", 10)], epoch=1, shard="1")
    assert standing(updated_servers(both, later), [Epoch(epoch=1, places=(), why="")], 1) == []


def test_a_change_stands_until_an_epoch_above_it_is_reached_and_the_next_one_counts_again() -> None:
    known = updated_servers(None, collected([("a", 0, 1, "bin.000007", 100), ("a", 1, 2, "bin.000003", 5)]))
    raised = Epoch(epoch=1, places=(), why="")
    assert (
        len(standing(known, [], 0))
        == len(standing(known, [raised], 0))
        == len(standing(known, [msgspec.structs.replace(raised, goes_on=True)], 1))
        == 1
    )
    assert standing(known, [raised], 1) == []

    known = updated_servers(known, collected([("a", 2, 2, "bin.000003", 9)], epoch=1))
    assert standing(known, [raised], 1) == []
    known = updated_servers(known, collected([("a", 3, 1, "bin.000002", 1)], epoch=1))
    (change,) = standing(known, [raised], 1)
    assert change_text("shop", change) == (
        "the upstream's binlog changed servers at a/0 offset 3 (server id 2 → 1, file bin 2): rows "
        "since may be out of order;"
        " `lakehouse epoch raise shop --why …`, then a snapshot"
    )


def binlog_read(chance: random.Random, bounds: tuple[int, int], ids: list[int]) -> list[Row]:
    """One server's binlog, a replica's with several ids, read with restarts that go back, into
    three topics.
    """
    binlog = [
        (chance.choice("abc"), chance.choice(ids), f"bin.{number // 5:06}", number)
        for number in range(*bounds)
    ]
    told, at = [], 0
    while at < len(binlog):
        until = min(len(binlog), at + chance.randint(1, 12))
        told += binlog[at:until]
        at = until if chance.random() < 0.7 else max(0, until - chance.randint(1, 15))
        if chance.random() < 0.05:
            break
    return with_offsets([(*one, 0) for one in told])


def with_offsets(told: list[Any]) -> list[Row]:
    following: dict[str, int] = {}
    rows = []
    for topic, server_id, file, position, _ in told:
        offset = following.get(topic, 0)
        following[topic] = offset + 1
        rows.append((topic, offset, server_id, file, position))
    return rows


def followed(*binlogs: list[Row]) -> list[Row]:
    """Binlogs one behind the other, in the same topics."""
    rows = [row for binlog in binlogs for row in binlog]
    return with_offsets([(topic, server, file, place, 0) for topic, _, server, file, place in rows])


def through(rows: list[Row], chance: random.Random) -> Any:
    """What silver comes to: batches, each decoded by several workers that read files in any order."""
    known, at = None, 0
    while at < len(rows):
        until = at + chance.randint(1, 40)
        files = [rows[number : number + 4] for number in range(at, min(until, len(rows)), 4)]
        files[-1] = files[-1][: max(0, until - at - 4 * (len(files) - 1))]
        chance.shuffle(files)
        half = chance.randint(0, len(files))
        books = [
            summarise(NO_CHANGES, [], 0, 0, servers=collected([row for file in part for row in file]))
            for part in (files[:half], files[half:])
        ]
        known = updated_servers(known, merged(from_bytes(to_bytes(book)) for book in books).servers)
        at = until
    return known


@given(st.integers(0, 2**32))
def test_any_reading_of_one_binlog_is_no_change_and_another_servers_is_found_wherever_it_is_lower(
    seed: int,
) -> None:
    chance = random.Random(seed)
    rows = binlog_read(chance, (100, 160), [1, 2, 3])
    assert through(rows, chance).changes == ()

    other = binlog_read(chance, (20, 60), [4])
    both = followed(rows, other)
    found = through(both, chance).changes
    is_met = {row[0] for row in rows} & {row[0] for row in other}
    assert [change.server for change in found] == ([4] if is_met else [])


@given(st.integers(0, 2**32))
def test_a_failover_to_a_higher_binlog_is_found_once_its_server_comes_back(seed: int) -> None:
    chance = random.Random(seed)
    first, second, third = (
        binlog_read(chance, bounds, ids)
        for bounds, ids in (((0, 40), [1]), ((100, 140), [2]), ((40, 80), [1]))
    )

    found = through(followed(first, second, third), chance).changes

    met = [{row[0] for row in rows} for rows in (first, second, third)]
    assert [change.server for change in found] == ([1] if met[0] & met[1] & met[2] else [])
