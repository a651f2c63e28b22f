"""What decoding costs per format, one command: `python -m bench.formats --messages 60000`.

Row changes, written by the tests' encoders, are landed in bronze: those of the bench (`narrow`, five columns,
or `wide`, forty; 20 tables whose values hardly ever repeat) or those of the tests' generator (`any`: many
types, few columns, few values, a new schema every seventh message). Then, in a session of its own for each,
as a job has it, and in turn: the floor, bronze copied by plain Spark into one Delta table, and silver's
decode of the same rows, whose packed result is given to a sink that throws it away. Both are medians of the
rounds, in CPU of the whole process tree. The result goes to docs/bench-formats.md, between its marks. Needs a
checkout: the encoders are the tests'.
"""

import argparse
import os
import platform
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from bench.baselines import copy_table
from bench.generate import FIRST_TS, NARROW, WIDE, Field, change, table_names
from bench.measure import Cost, measured
from lakehouse.events import Message
from lakehouse.formats import order_of
from lakehouse.ops.progress import OffsetRange
from lakehouse.schema import Column, TableSchema, parse_type
from lakehouse.spark.bronze.recordings import land_messages
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import RunContext
from lakehouse.spark.session import get_session, many_rows
from lakehouse.spark.silver.context import batch_context
from lakehouse.spark.silver.decode import decode

FORMATS = (
    "ticdc-open",
    "ticdc-canal-json",
    "ticdc-debezium",
    "canal",
    "canal-protobuf",
    "debezium",
    "tencent-dts",
)
OPTIONS = {"time_zone": "UTC"}
TABLES = 20
ROWS, WIDER = ("narrow", "wide", "any"), 6
FIGURES = re.compile(r"(<!-- figures -->\n).*(\n<!-- end -->)", re.S)
LIMIT = 2.5
Costs = dict[str, list[Cost]]
Found = tuple[int, int, Costs]  # messages, their bytes, costs


def main() -> None:
    given = arguments()
    found: dict[tuple[str, str], Found] = {}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as sessions:
        for rows in given.rows:
            for format_ in given.formats:
                found[rows, format_] = sessions.submit(one_session, given, rows, format_).result()
                print(rows, line(format_, *found[rows, format_]), file=sys.stderr, flush=True)
    place_figures(given, found)


def one_session(given: argparse.Namespace, rows: str, format_: str) -> Found:
    """The messages of one format landed, then copied and decoded in turn, in a session that does nothing
    else: as a job does.
    """
    count = given.messages // (WIDER if rows == "wide" else 1)
    messages = repeated(messages_of(format_, given.seed, count, rows), count)
    costs: Costs = {"floor": [], "decode": []}
    spark = get_session(app="bench")
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as folder:
        lake = Lake(f"{folder}/lake")
        land_messages(RunContext(OpsLog(spark, lake, "bench"), lambda _: None), messages)
        for number in range(given.rounds + 1):
            one_round(
                spark,
                lake,
                format_,
                Path(folder) / f"copy{number}",
                costs if number else {"floor": [], "decode": []},
            )
    spark.stop()
    return count, sum(len(m.key or b"") + len(m.value or b"") for m in messages), costs


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.formats", description=__doc__)
    parser.add_argument(
        "--messages", type=int, default=60_000, help="messages per format; of wide rows a sixth"
    )
    parser.add_argument("--rows", nargs="*", choices=ROWS, default=ROWS, help="whose row changes")
    parser.add_argument("--formats", nargs="*", choices=FORMATS, default=FORMATS)
    parser.add_argument("--rounds", type=int, default=3, help="the median of so many, after one that warms")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, default=Path("docs/bench-formats.md"))
    return parser.parse_args()


def messages_of(format_: str, seed: int, count: int, rows: str = "any") -> list[Message]:
    """The row changes of one seeded history, as the format's producer writes them: about `count` messages or
    more.
    """
    from tests.support.encode_binlog import binlog, cut, dts_entry, dts_envelopes, feed
    from tests.support.encode_open import encode, message
    from tests.support.encode_tidb import canal_json, debezium
    from tests.support.source_model import History

    chance, of_binlog = random.Random(seed), format_ in ("canal", "canal-protobuf", "debezium", "tencent-dts")
    if rows == "any":
        events = [
            event
            for event in History(seed, count * 3 // 2, raw_updates=of_binlog).events
            if event["kind"] == "row"
        ]
    else:
        events = list(
            row_events(chance, NARROW if rows == "narrow" else WIDE, count * (4 if of_binlog else 1))
        )
    if format_ == "tencent-dts":
        parts = (
            dts_envelopes([dts_entry(event) for event in entries], 10**6)
            for entries in cut(binlog(events, chance), chance)
        )
        values = (value for part in parts for value in part)
        return [
            Message("bench", 0, n, None, value, (("ps", str(n + 1).encode()),))
            for n, value in enumerate(values)
        ]
    if of_binlog:
        return feed(format_, binlog(events, chance), chance)
    if format_ == "ticdc-open":
        return [message([encode(event, event.get("shape"))], "bench", 0, n) for n, event in enumerate(events)]
    if format_ == "ticdc-canal-json":
        return [
            Message("bench", 0, n, None, canal_json(event, event.get("shape")))
            for n, event in enumerate(events)
        ]
    return [
        Message("bench", 0, n, *debezium(event, event.get("shape"), "UTC")) for n, event in enumerate(events)
    ]


def row_events(chance: random.Random, fields: tuple[Field, ...], count: int) -> Iterator[dict[str, Any]]:
    """Changes of the bench's rows, in transactions of one to seven of a table's rows, as the tests' encoders
    take them.
    """
    columns = tuple(
        Column(number, field.name, parse_type(field.sql.partition(" ")[0]))
        for number, field in enumerate(fields, 1)
    )
    shape = TableSchema(columns, primary_key=(1,), next_id=len(columns) + 1)
    tables: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in table_names(TABLES)}
    done = 0
    while done < count:
        table, moment, seen = chance.choice(list(tables)), FIRST_TS + done * (1 << 18), set()
        for number in range(done, done + chance.randrange(1, 8)):
            key, told = change(chance, tables[table], number, fields)
            if key not in seen:
                seen.add(key)
                before, after = cells(told.get("p") or told.get("d"), fields), cells(told.get("u"), fields)
                row = {
                    "kind": "row",
                    "schema": "bench",
                    "table": table,
                    "commit_ts": moment,
                    "row_id": key,
                    "shape": shape,
                }
                yield row | ({"before": before} if before else {}) | ({"after": after} if after else {})
        done += 7


def cells(image: dict[str, Any] | None, fields: tuple[Field, ...]) -> dict[str, Any]:
    types = {field.name: field.sql.partition(" ")[0].lower() for field in fields}
    return {name: {"type": types[name], "value": str(cell["v"])} for name, cell in (image or {}).items()}


def repeated(messages: list[Message], count: int) -> list[Message]:
    """The messages again and again, each with an offset of its own."""
    return [
        msgspec.structs.replace(message, offset=offset)
        for offset, message in enumerate(islice(cycle(messages), count))
    ]


def one_round(spark: Any, lake: Lake, format_: str, copy: Path, costs: Costs) -> None:
    near = batch_context(
        OpsLog(spark, lake, "bench"),
        format_,
        OPTIONS,
        [OffsetRange("bench", "", 0, first=0, last=0)],
    )
    settings = {
        "format": format_,
        "options": OPTIONS,
        "order": order_of(format_, OPTIONS),
        "row_ids": False,
        "epochs": (),
        "beside": near,
    }
    with many_rows(spark):
        with measured(costs["floor"].append):
            copy_table(spark, Path(lake.path("bronze", "bench")), copy)
        with measured(costs["decode"].append):
            decode(lake.read(spark, "bronze", "bench"), settings).write.format("noop").mode(
                "overwrite"
            ).save()


def line(format_: str, messages: int, size: int, costs: Costs) -> str:
    floor, decoded = (statistics.median(cost.cpu for cost in costs[name]) for name in ("floor", "decode"))
    return (
        f"| {format_} | {size / messages:.0f} | {floor:.1f} | {decoded:.1f} | "
        f"{decoded / messages * 1e6:.0f} | {decoded / floor:.2f} × |"
    )


def place_figures(given: argparse.Namespace, found: dict[tuple[str, str], Found]) -> None:
    """The figures, in the place that the page keeps for them; a page of their own where it has none."""
    text = "\n".join(lines(given, found))
    page = given.report.read_text() if given.report.exists() else ""
    given.report.write_text(
        FIGURES.sub(lambda marks: f"{marks[1]}{text}{marks[2]}", page)
        if FIGURES.search(page)
        else text + "\n"
    )


def lines(given: argparse.Namespace, found: dict[tuple[str, str], Found]) -> Iterator[str]:
    yield f"    python -m bench.formats --messages {given.messages} --rounds {given.rounds}"
    yield ""
    yield (
        f"{time.strftime('%Y-%m-%d')}; median of {given.rounds}; {os.cpu_count()} cores, {platform.system()}"
        f" {platform.machine()}, Python {platform.python_version()}; load average {os.getloadavg()[1]:.1f}. "
        f"At most {LIMIT} × is aimed at."
    )
    for rows in dict.fromkeys(rows for rows, _ in found):
        yield from (
            "",
            f"## Rows: {rows}",
            "",
            "| format | bytes a message | floor, CPU s | decode, CPU s | µs a message | against the floor |",
            "|---|---|---|---|---|---|",
        )
        yield from (line(format_, *told) for (kind, format_), told in found.items() if kind == rows)


if __name__ == "__main__":
    main()
