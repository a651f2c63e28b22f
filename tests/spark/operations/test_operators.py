"""What operators do to a lake, by the commands that they type, one after another on one lake: the tables say
whether it was right.
"""

import base64
import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import cramjam
import pytest

from lakehouse.cli.main import main
from lakehouse.formats.open_frames import framed

T = 470_606_995_725_312_000
CREATE = "CREATE TABLE `shop`.`t` (id INT PRIMARY KEY, v VARCHAR(20))"


class Operator:
    """A recording that grows, a configuration, and a lake."""

    def __init__(self, root: Path) -> None:
        self.root, self.lines, self.next = root, list[dict[str, Any]](), dict[int, int]()
        (root / "configs/sources").mkdir(parents=True)
        (root / "configs/tables").mkdir()
        (root / "configs/tables/shop.t.yml").write_text("source: shop\ntable: shop.t\n")
        self.configure("")

    def configure(self, more: str) -> None:
        text = f"format: ticdc-open\nrecording: [{self.root}/shop.jsonl]\ntime_zone: UTC\n{more}"
        (self.root / "configs/sources/shop.yml").write_text(text)

    def sends(self, partition: int, key: bytes, value: bytes) -> None:
        """The next message of a partition."""
        offset = self.next[partition] = self.next.get(partition, -1) + 1
        coded = {
            name: base64.b64encode(data).decode() for name, data in (("key_b64", key), ("value_b64", value))
        }
        self.lines.append({"topic": "shop", "partition": partition, "offset": offset, **coded})
        (self.root / "shop.jsonl").write_text("".join(json.dumps(line) + "\n" for line in self.lines))

    def event(self, partition: int, ts: int, kind: int, value: Any = None, *, squeezed: bool = False) -> None:
        """One event at T + ts: kind 1 a row, 2 a DDL, 3 resolved."""
        key = {"ts": T + ts, "scm": "shop", "tbl": "t", "t": kind} if kind < 3 else {"ts": T + ts, "t": 3}
        data = json.dumps(value).encode() if value else b""
        coded = framed([json.dumps(key).encode()], [bytes(cramjam.lz4.compress(data)) if squeezed else data])
        self.sends(partition, *coded)

    def row(self, partition: int, ts: int, id: int, v: str, *, squeezed: bool = False) -> None:
        image = {"id": {"t": 3, "h": True, "f": 11, "v": id}, "v": {"t": 15, "f": 64, "v": v}}
        self.event(partition, ts, 1, {"u": image}, squeezed=squeezed)

    def types(self, *words: str) -> tuple[int, list[Any], str]:
        """A command: its exit code, what it printed (JSON where it can), and what it said of an error."""
        out, err, code = io.StringIO(), io.StringIO(), 0
        where = ["--lake", str(self.root / "lake")]
        if words[0] in ("run", "status", "plan"):
            where += ["--configs", str(self.root / "configs")]
        with (
            patch.object(sys, "argv", ["lakehouse", *words, *where]),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                main()
            except SystemExit as exit:
                code = int(exit.code or 0)
        lines = out.getvalue().splitlines()
        return code, [json.loads(line) if line.startswith("{") else line for line in lines], err.getvalue()

    def does(self, *words: str) -> list[Any]:
        code, lines, said = self.types(*words)
        assert code == 0, said
        return lines

    def table(self) -> tuple[str, dict[int, str]]:
        """Gold's state, and its rows."""
        (told,) = self.does("status", "--json")
        return told["tables"][0]["state"], {
            row["id"]: row["v"] for row in self.does("show", "shop.t", "--json")
        }


@pytest.fixture
def operator(spark: Any, tmp_path: Path) -> Operator:
    return Operator(tmp_path)


def test_the_commands_of_an_operator_end_to_end(operator: Operator) -> None:
    for partition in (0, 1):
        operator.event(partition, 1, 2, {"q": CREATE, "t": 3})
    operator.row(0, 2, 1, "one")
    operator.row(0, 3, 2, "two", squeezed=True)
    operator.event(1, 1, 3)
    operator.event(0, 9, 3)

    # layer by layer, selected by source and by table
    code, _, said = operator.types("run", "bronze", "--select", "shops")
    assert (code, said) == (2, "run: expected at least one source; --select names none that is configured\n")
    assert operator.does("run", "bronze", "--select", "shop", "--json")[0]["new_messages"] == 6
    assert operator.does("run", "silver", "--select", "shop.t", "--json")[0]["silver_batches"] == 1
    assert operator.does("run", "gold", "--select", "shop.t", "--json")[0]["gold"] == "published"
    (told,) = operator.does("status", "--json")
    assert (told["held_by"], told["watermark"][1], told["dead_letters"]) == ("shop/1", T + 1, 1)

    # a partition that nobody writes to any more
    code, _, said = operator.types("partitions", "retire", "shop", "shop", "5", "--why", "gone")
    assert (code, said) == (
        1,
        "shop/5: expected a partition that the watermark waits for, which are shop/0, shop/1\n",
    )
    assert operator.does("partitions", "retire", "shop", "shop", "1", "--why", "gone") == [
        "source: shop",
        "retired: shop/1",
        f"next: lakehouse run gold --lake {operator.root / 'lake'}",
    ]
    operator.does("run", "gold")
    assert operator.table() == ("incomplete", {1: "one"})

    # a dead letter of a setting that is mended
    (letter,) = operator.does("dead-letters", "list", "--json")
    assert (letter["origin"], letter["open"]) == (
        {"topic": "shop", "incarnation": "", "partition": 0, "offset": 2, "index": 0},
        True,
    )
    assert operator.does("dead-letters", "list", "--code", "unresolved", "--json") == []
    operator.configure("compression: lz4\n")
    assert operator.does("run", "all", "--json")[0]["gold"] == "nothing new"
    assert operator.does("dead-letters", "requeue", "shop", "--code", letter["code"])[:2] == [
        "source: shop",
        "requeued: 1",
    ]
    assert [one["open"] for one in operator.does("dead-letters", "list", "--json")] == [False]
    assert operator.does("dead-letters", "requeue", "shop")[:2] == ["source: shop", "requeued: 0"]
    operator.does("run", "gold")
    assert operator.table() == ("exact", {1: "one", 2: "two"})

    # one that is given up, which is what makes the table exact again, and not one that comes later
    operator.sends(0, b"noise", b"noise")
    operator.event(0, 10, 3)
    operator.does("run", "all")
    assert operator.table() == ("incomplete", {1: "one", 2: "two"})
    again = operator.does("dead-letters", "requeue", "shop")
    assert again[:2] == ["source: shop", "requeued: 1"]
    assert again[-1].startswith("next: lakehouse dead-letters list --source shop ")  # it failed again
    assert [one["open"] for one in operator.does("dead-letters", "list", "--json")] == [False, False, True]
    assert operator.does("dead-letters", "dismiss", "shop", "--why", "noise")[:2] == [
        "source: shop",
        "dismissed: 1",
    ]
    operator.does("run", "gold")
    assert operator.table()[0] == "exact"
    operator.sends(0, b"noise", b"again")
    operator.does("run", "all")
    assert operator.table()[0] == "incomplete"
    operator.does("dead-letters", "dismiss", "shop", "--why", "noise again")

    # decoding everything again meets the same letters, which stay given up, while one that comes later counts
    operator.does("rebuild", "silver", "shop", "--yes")
    assert [one["open"] for one in operator.does("dead-letters", "list", "--json")] == [False, False]
    operator.does("run", "gold")
    assert operator.table()[0] == "exact"
    operator.sends(0, b"noise", b"once more")
    operator.does("run", "all")
    assert operator.table()[0] == "incomplete"
    operator.does("rebuild", "silver", "shop", "--yes")
    assert {one["open"] for one in operator.does("dead-letters", "list", "--json")} == {True}
    operator.does("dead-letters", "dismiss", "shop", "--why", "noise once more")

    # the upstream is restored to before row 2: what it does from now on is above all before, in partitions
    # never met too
    assert operator.does("epoch", "raise", "shop", "--why", "restored", "--restored-to", str(T + 2))[:2] == [
        "source: shop",
        "epoch: 1",
    ]
    operator.row(0, 3, 1, "one again")
    operator.row(2, 4, 3, "three")
    for partition in (0, 2):
        operator.event(partition, 5, 3)
    operator.does("run", "all")
    assert operator.table() == ("exact", {1: "one again", 3: "three"})
    (told,) = operator.does("status", "--json")
    assert (told["watermark"][:2], told["books"]) == ([1, T + 5], "closed")

    code, _, said = operator.types("epoch", "raise", "shops", "--why", "no such source")
    assert (code, said) == (1, f"shops: expected a source of {operator.root}/lake, which has shop\n")


def test_a_retired_partition_that_is_written_to_leaves_tables_incomplete_until_it_is_past_the_watermark(
    operator: Operator,
) -> None:
    for partition in (0, 1):
        operator.event(partition, 1, 2, {"q": CREATE, "t": 3})
        operator.event(partition, 1, 3)
    operator.row(0, 2, 1, "one")
    operator.event(0, 9, 3)
    operator.does("run", "all")
    operator.does("partitions", "retire", "shop", "shop", "1", "--why", "nothing writes to it")
    operator.does("run", "gold")
    assert operator.table() == ("exact", {1: "one"})

    operator.row(1, 5, 2, "two")
    operator.does("run", "all")
    assert operator.table() == ("incomplete", {1: "one", 2: "two"}), "what else was sent is not known"

    operator.row(1, 6, 3, "three")
    operator.event(1, 9, 3)
    operator.does("run", "all")
    assert operator.table() == ("exact", {1: "one", 2: "two", 3: "three"})
