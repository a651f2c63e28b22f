"""What `lakehouse snapshot` costs, next to Spark's own JDBC reader and Debezium's snapshot of the same table.

    python -m bench.snapshot [--rows 1000000] [--read-alone] [--ours-alone]

Starts a MariaDB, fills a table of five columns, and reads it: by a real Debezium connector, whose messages go
to a file, without a broker; into Delta by the JDBC reader, in two ranges of the key, as a notebook would do
it; then by `lakehouse snapshot`, with two readers, and on through silver and gold, which end with the same
rows (with --read-alone the reading is all that is measured, and with --ours-alone ours, in whose memory
nothing is left of the others then). Wall and CPU seconds are those of the whole process tree without the
server, and for Debezium without Spark; so is memory, the highest that was seen. The result goes to
docs/bench.md.
"""

import argparse
import base64
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.bench import children, quiet
from bench.measure import Cost, measured
from bench.report import replaced
from lakehouse.config.load import Config, load
from lakehouse.jvm.jars import locked_jars
from lakehouse.jvm.java import java_home
from lakehouse.spark.lake import Lake
from lakehouse.spark.pipeline.run import runs
from lakehouse.spark.pipeline.snapshot_tables import Asked, snapshot_tables
from lakehouse.spark.session import local_settings, many_rows
from lakehouse.spark.source import source_of
from tests.producers.connector import Connector, class_path
from tests.producers.debezium_settings import required
from tests.producers.java_driver import stop_driver
from tests.servers.mariadb import start_mariadb
from tests.support.busy_server import BusyServer
from tests.support.lakes import write_recording

READERS = 2
DEBEZIUM = "3.5.0.Final"
CREATE = (
    "CREATE TABLE big (id BIGINT PRIMARY KEY, customer VARCHAR(64), amount DECIMAL(12,2), quantity INT,"
    " at DATETIME(6))"
)
FILL = (
    "INSERT INTO big SELECT seq, MD5(seq), seq % 99999 + 0.25, seq % 1000,"
    " '2026-11-01' + INTERVAL seq SECOND FROM seq_1_to_{}"
)
TITLE = "A table that exists"


def session(memory: str) -> SparkSession:
    """A session as `lakehouse` makes it, which has the driver of the JDBC reader too."""
    driver = locked_jars(Path(__file__).with_name("jars_jdbc.txt"), "the JDBC driver")
    settings = local_settings(memory)
    settings["spark.driver.extraClassPath"] += f":{driver[0]}"
    os.environ |= {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable}
    builder = SparkSession.builder.master("local[*]").appName("bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def by_jdbc(spark: SparkSession, port: int, rows: int, place: Path) -> None:
    # a URL of mysql: Spark quotes names as that server does by the URL alone
    reader = spark.read.format("jdbc").option("url", f"jdbc:mysql://127.0.0.1:{port}/shop?permitMysqlScheme")
    options = {
        "driver": "org.mariadb.jdbc.Driver",
        "dbtable": "big",
        "user": "root",
        "partitionColumn": "id",
        "lowerBound": 1,
        "upperBound": rows + 1,
        "numPartitions": READERS,
        "fetchsize": 10_000,
    }
    for name, value in options.items():
        reader = reader.option(name, value)
    with many_rows(spark):
        reader.load().write.format("delta").save(str(place))


def by_debezium(folder: Path, port: int) -> None:
    """Have a connector read the table into the file sent.txt, a line for each record."""
    settings = {
        **required(folder, port, "mariadb", DEBEZIUM),
        "snapshot.mode": "initial_only",
        "table.include.list": "shop.big",
        "include.schema.changes": "false",
        "provide.transaction.metadata": "false",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "max.batch.size": "2048",
        "poll.interval.ms": "50",
    }
    connector = Connector(folder, DEBEZIUM, "mariadb", settings)
    connector.start()
    assert connector.process is not None
    try:
        while b'"snapshot":"last"' not in last_value(connector.out):
            if connector.process.poll() is not None:
                raise SystemExit(f"snapshot: the connector has ended, see {folder}/connector.log")
            time.sleep(0.2)
    finally:
        stop_driver(connector.process, at_once=True)


def count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def last_value(path: Path) -> bytes:
    """The value of the last record of a connector's file, if it is whole."""
    if not path.exists():
        return b""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 8192))
        lines = file.read().splitlines(keepends=True)
    if not lines or not lines[-1].endswith(b"\n"):
        return b""
    _topic, _key, value, *_headers = lines[-1].split(b" ")
    return base64.b64decode(value.strip().removeprefix(b"="))


def configured(folder: Path, port: int) -> Config:
    """A source of a recording whose database is the server."""
    (folder / "configs/sources").mkdir(parents=True)
    (folder / "configs/sources/shop.yml").write_text(
        f"format: debezium\nrecording: {folder / 'shop.jsonl'}\ntables: auto\ndatabase:\n"
        f"  host: 127.0.0.1\n  port: {port}\n  user: root\n  password: ${{env:BENCH_PASSWORD}}\n  tls: off\n"
    )
    os.environ["BENCH_PASSWORD"] = "none"
    return load(folder / "configs")


def measure(
    spark: SparkSession, folder: Path, rows: int, *, read_alone: bool = False, ours_alone: bool = False
) -> dict[str, Cost]:
    """Read the table in each way, and compare the rows at the end."""
    costs: dict[str, list[Cost]] = {}
    before = children()
    options = ("--log-bin=binlog", "--server-id=7", "--binlog-format=ROW")
    with start_mariadb(folder / "server", *options) as server:
        servers = children() - before
        busy = BusyServer(server.port, 1, rows=10, tables=("item",))
        busy.run(CREATE)
        busy.run(FILL.format(rows))
        config, lake = configured(folder, server.port), folder / "lake"

        def step(name: str, work: Any, apart: frozenset[int] = servers) -> None:
            with measured(costs.setdefault(name, []).append, apart):
                work()
            cost = costs[name][-1]
            told = f"{name:24} {cost.wall:7.1f} s {cost.cpu:7.1f} CPU s {cost.peak:,.0f} MB"
            print(told, file=sys.stderr, flush=True)

        def run(*layers: str) -> None:
            list(runs(config, layers, True, (), lake=str(lake), progress=quiet))

        def fed() -> None:
            busy.transact()
            write_recording(folder / "shop.jsonl", list(busy.messages))

        fed()
        run("bronze", "silver", "gold")
        source = source_of(config, "shop", str(lake))
        asked = Asked(("shop.big",), parallel=READERS)
        if ours_alone:
            step("lakehouse snapshot", lambda: snapshot_tables(source, asked, quiet))
            return {name: found[0] for name, found in costs.items()}
        class_path(DEBEZIUM, "mariadb")  # fetched before the clock runs
        step("Debezium's snapshot", lambda: by_debezium(folder / "debezium", server.port), children())
        sent = count_lines(folder / "debezium/sent.txt")
        if sent != rows:
            raise SystemExit(f"snapshot: expected {rows:,} records of Debezium, got {sent:,}")
        by_jdbc(spark, server.port, rows, folder / "warm")
        step("Spark's JDBC reader", lambda: by_jdbc(spark, server.port, rows, folder / "jdbc"))
        step("lakehouse snapshot", lambda: snapshot_tables(source, asked, quiet))
        if read_alone:
            return {name: found[0] for name, found in costs.items()}
        fed()
        run("bronze")
        for layer in ("silver", "gold"):
            step(layer, lambda layer=layer: run(layer))
    gold = Lake(str(lake)).read(spark, "gold", "shop__big")
    wanted = spark.read.format("delta").load(str(folder / "jdbc"))
    for frame in (gold, wanted):
        if frame.count() != rows:
            raise SystemExit(f"snapshot: expected {rows:,} rows, got {frame.count():,}")
    names = ("id", "customer", "amount", "quantity", F.col("at").cast("string"))
    if not gold.select(*names).exceptAll(wanted.select(*names)).isEmpty():
        raise SystemExit("snapshot: gold's rows are not those that the JDBC reader has read")
    return {name: found[0] for name, found in costs.items()}


def section(rows: int, told: str, costs: dict[str, Cost]) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    alone = " --ours-alone" if len(costs) == 1 else " --read-alone" if "gold" not in costs else ""
    connector = f" Debezium {DEBEZIUM} writes to a file." if len(costs) > 1 else ""
    lines = [
        f"    python -m bench.snapshot --rows {rows}{alone}" + (f" --memory {told}" if told != "2g" else ""),
        "",
        f"{time.strftime('%Y-%m-%d')}; {os.cpu_count()} cores, {memory:.0f} GB, {platform.system()}; load "
        f"average {os.getloadavg()[2]:.1f}. {rows:,} rows of five columns in a MariaDB 11.4 on the same "
        f"machine, {READERS} readers; a driver of {told}.{connector} Run once."
        + (" The rows are the same at the end." if "gold" in costs else ""),
        "",
        "| step | wall s | CPU s | rows/s | CPU µs a row | peak MB |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {cost.wall:.1f} | {cost.cpu:.1f} | {rows / cost.wall:,.0f} | "
        f"{cost.cpu / rows * 1e6:.0f} | {cost.peak:,.0f} |"
        for name, cost in costs.items()
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.snapshot",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--read-alone", action="store_true", help="without silver and gold")
    parser.add_argument("--ours-alone", action="store_true", help="nothing but our reading, for its memory")
    parser.add_argument("--memory", default="2g", help="of the session")
    parser.add_argument("--report", type=Path, default=Path("docs/bench.md"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakehouse-snapshot-") as folder:
        costs = measure(
            session(given.memory),
            Path(folder),
            given.rows,
            read_alone=given.read_alone,
            ours_alone=given.ours_alone,
        )
    title = f"{TITLE}, ours alone" if given.ours_alone else TITLE
    title = f"{TITLE}, reading alone" if given.read_alone and not given.ours_alone else title
    text = given.report.read_text(encoding="utf-8")
    told = section(given.rows, given.memory, costs)
    given.report.write_text(replaced(text, title, told), encoding="utf-8")


if __name__ == "__main__":
    main()
