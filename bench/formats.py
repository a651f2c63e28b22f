"""What decoding costs per format, one command: `python -m bench.formats --messages 30000`.

Row changes of the tests' generator (many types, small tables), written by the tests' encoders, are landed in bronze. Then, in one
session and in turn: the floor, bronze copied by plain Spark into one Delta table, and silver's decode of the same rows, whose packed
result is given to a sink that throws it away. Both are medians of the rounds, in CPU of the whole process tree. The result goes to
docs/bench-formats.md. Needs a checkout: the encoders are the tests'.
"""

import argparse
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import msgspec

from bench.baselines import copy_table
from bench.measure import Cost, measured
from lakehouse.events import Message
from lakehouse.formats import order_of
from lakehouse.spark.bronze import land_messages
from lakehouse.spark.decode import decode
from lakehouse.spark.lake import Lake
from lakehouse.spark.session import get_session, many_rows

FORMATS = ("ticdc-open", "ticdc-canal-json", "ticdc-debezium", "canal", "canal-protobuf", "debezium", "tencent-dts")
OPTIONS = {"time_zone": "UTC"}
LIMIT = 2.5
Costs = dict[str, list[Cost]]


def main() -> None:
    given = arguments()
    spark = get_session(app="bench")
    found = {}
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as folder:
        # the first one twice: its first time, the JVM is cold
        for turn, format_ in enumerate((given.formats[0], *given.formats)):
            messages = repeated(messages_of(format_, given.seed, given.messages), given.messages)
            lake = Lake(f"{folder}/{turn}")
            land_messages(spark, lake, "bench", messages, lambda _: None)
            costs: Costs = {"floor": [], "decode": []}
            for number in range(given.rounds + 1):
                one_round(spark, lake, format_, Path(folder) / f"{turn}-copy{number}", costs if number else {"floor": [], "decode": []})
            found[format_] = (sum(len(m.key or b"") + len(m.value or b"") for m in messages), costs)
            print(line(format_, given.messages, *found[format_]), file=sys.stderr, flush=True)
    given.report.write_text(report(given, found))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.formats", description=__doc__)
    parser.add_argument("--messages", type=int, default=30_000, help="messages per format")
    parser.add_argument("--formats", nargs="*", choices=FORMATS, default=FORMATS)
    parser.add_argument("--rounds", type=int, default=3, help="the median of so many, after one that warms")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, default=Path("docs/bench-formats.md"))
    return parser.parse_args()


def messages_of(format_: str, seed: int, count: int) -> list[Message]:
    """The row changes of one seeded history, as the format's producer writes them: about `count` messages or more."""
    sys.path.insert(0, "tests")
    from encode_binlog import binlog, cut, dts_entry, dts_envelopes, feed
    from encode_open import encode, message
    from encode_tidb import canal_json, debezium
    from source_model import History

    chance, of_binlog = random.Random(seed), format_ in ("canal", "canal-protobuf", "debezium", "tencent-dts")
    events = [event for event in History(seed, count * 3 // 2, raw_updates=of_binlog).events if event["kind"] == "row"]
    if format_ == "tencent-dts":
        parts = (dts_envelopes([dts_entry(event) for event in entries], 10**6) for entries in cut(binlog(events, chance), chance))
        values = (value for part in parts for value in part)
        return [Message("bench", 0, n, None, value, (("ps", str(n + 1).encode()),)) for n, value in enumerate(values)]
    if of_binlog:
        return feed(format_, binlog(events, chance), chance)
    if format_ == "ticdc-open":
        return [message([encode(event, event.get("shape"))], "bench", 0, n) for n, event in enumerate(events)]
    if format_ == "ticdc-canal-json":
        return [Message("bench", 0, n, None, canal_json(event, event.get("shape"))) for n, event in enumerate(events)]
    return [Message("bench", 0, n, *debezium(event, event.get("shape"), "UTC")) for n, event in enumerate(events)]


def repeated(messages: list[Message], count: int) -> list[Message]:
    """The messages again and again, each with an offset of its own."""
    return [msgspec.structs.replace(message, offset=offset) for offset, message in enumerate(islice(cycle(messages), count))]


def one_round(spark: Any, lake: Lake, format_: str, copy: Path, costs: Costs) -> None:
    settings = {"format": format_, "options": OPTIONS, "order": order_of(format_, OPTIONS), "row_ids": False, "epochs": ()}
    with many_rows(spark):
        with measured(costs["floor"].append):
            copy_table(spark, Path(lake.path("bronze", "bench")), copy)
        with measured(costs["decode"].append):
            decode(lake.read(spark, "bronze", "bench"), settings).write.format("noop").mode("overwrite").save()


def line(format_: str, messages: int, size: int, costs: Costs) -> str:
    floor, decoded = (statistics.median(cost.cpu for cost in costs[name]) for name in ("floor", "decode"))
    return f"| {format_} | {size / messages:.0f} | {floor:.1f} | {decoded:.1f} | {decoded / messages * 1e6:.0f} | {decoded / floor:.2f} × |"


def report(given: argparse.Namespace, found: dict[str, tuple[int, Costs]]) -> str:
    return "\n".join(lines(given, found)) + "\n"


def lines(given: argparse.Namespace, found: dict[str, tuple[int, Costs]]) -> Iterator[str]:
    assert __doc__ is not None
    yield from (
        "# What decoding costs per format",
        "",
        f"    python -m bench.formats --messages {given.messages} --rounds {given.rounds}",
        "",
    )
    yield from __doc__.split("\n\n", 1)[1].splitlines()
    yield ""
    yield (
        f"{time.strftime('%Y-%m-%d')}; {given.messages:,} messages, median of {given.rounds}; {os.cpu_count()} cores, {platform.system()}"
        f" {platform.machine()}, Python {platform.python_version()}; load average {os.getloadavg()[1]:.1f}. At most {LIMIT} × is aimed at."
    )
    yield from (
        "",
        "| format | bytes a message | floor, CPU s | decode, CPU s | µs a message | against the floor |",
        "|---|---|---|---|---|---|",
    )
    yield from (line(format_, given.messages, *told) for format_, told in found.items())


if __name__ == "__main__":
    main()
