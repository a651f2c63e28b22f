"""The command line, run as its users run it: exit codes, what goes to stdout and stderr, and what is
imported.
"""

import base64
import io
import json
import logging
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from typer.testing import CliRunner

from lakehouse.cli.main import COMMANDS, GROUPS, build, main
from lakehouse.cli.options import share
from lakehouse.cli.output import result_lines
from lakehouse.errors import ConfigError, LakehouseError
from tests.support.paths import ROOT

RUN = "from lakehouse.cli.main import main; main()"
RUN_AS = "import sys; sys.argv[0] = 'lakehouse'; " + RUN
KEY = b'{"ts":470606995728891908,"scm":"shop","tbl":"t","t":1}'
VALUE = (
    b'{"u":{"id":{"t":3,"h":true,"f":11,"v":1},"name":{"t":15,"f":64,"v":"Zo\xc3\xab"},'
    b'"at":{"t":7,"f":65,"v":"2024-01-02 08:00:00"}}}'
)


def framed(text: bytes, head: bytes = b"") -> bytes:
    return head + len(text).to_bytes(8, "big") + text


KEY_BYTES, VALUE_BYTES = framed(KEY, (1).to_bytes(8, "big")), framed(VALUE)


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def lakehouse(*arguments: str) -> Done:
    """The console script, in this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with patch.object(sys, "argv", ["lakehouse", *arguments]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as exit:
            code = int(exit.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def process(*arguments: str, stdin: bytes = b"") -> Done:
    """The console script in a process of its own."""
    done = subprocess.run([sys.executable, "-c", RUN, *arguments], input=stdin, capture_output=True, cwd=ROOT)
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(ROOT)
    yield
    logging.getLogger("lakehouse").setLevel(logging.NOTSET)


def recording() -> bytes:
    line = {
        "partition": 0,
        "offset": 7,
        "key_b64": base64.b64encode(KEY_BYTES).decode(),
        "value_b64": base64.b64encode(VALUE_BYTES).decode(),
    }
    return json.dumps(line).encode() + b"\n"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "topic.jsonl"
    path.write_bytes(recording())
    return path


# --- usage


def test_help_documents_the_exit_codes_and_every_command() -> None:
    done = lakehouse("--help")

    text = " ".join(done.stdout.split())
    assert done.returncode == 0
    assert "Exit codes: 0 ok, 1 failed, 2 bad usage or configuration, 130 interrupted by Ctrl-C." in text
    assert [name for name in COMMANDS if f" {name.split()[0]} " not in text] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    done = CliRunner().invoke(build(), [*name.split(), "--help"])

    assert done.exit_code == 0
    text = COMMANDS[name].__doc__
    assert text is not None
    assert text.split("\n")[0].split(".")[0][:50] in " ".join(done.output.split())


def test_every_group_has_a_help() -> None:
    assert {name.split()[0] for name in COMMANDS if " " in name} == set(GROUPS)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["inspct"], 2, "No such command 'inspct'"),
        (["inspect", "--fromat", "x"], 2, "No such option: --fromat"),
        (
            ["inspect", "no/such.jsonl", "--format", "ticdc-open"],
            1,
            "no/such.jsonl: expected a recording that can be read, got: No such file or directory",
        ),
        (["inspect", "x", "--format", "canl"], 2, "--format: canl is no format; did you mean `canal`?"),
        (["inspect", "-"], 2, "inspect: expected a format, got none; add --format NAME or --source FILE"),
        (["inspect", "x"], 2, "x: expected a recording or the folder of a storage sink, found neither"),
        (["try", "x"], 2, "x: expected a recording or the folder of a storage sink, found neither"),
        (
            ["inspect", "x", "--format", "canal", "--option", "time-zone"],
            2,
            "--option time-zone: expected NAME=VALUE",
        ),
        (
            ["inspect", "x", "--format", "canal", "--option", "delimiter=,"],
            2,
            "option delimiter: is no option of canal; valid names: charset, server, time_zone",
        ),
        (
            ["inspect", "x", "--value", "y", "--format", "canal"],
            2,
            "inspect: expected a recording or --key and --value, got both",
        ),
        (["inspect", "--value", "no/such", "--format", "canal"], 1, "no/such: No such file or directory"),
        (["ddl", "no/such.sql"], 1, "no/such.sql: No such file or directory"),
        (["floor", "raise", "shop", "--older-than", "3x"], 2, "--older-than 3x: expected a duration with"),
        (
            ["replay", "shop", "--to", "x.jsonl", "--to-topic", "shop"],
            2,
            "replay: --to-topic and --kafka go with --bootstrap-servers, and not with --to",
        ),
        (["floor", "raise", "shop"], 2, "floor raise: expected --at T, or --older-than DURATION"),
        (
            ["rebuild", "shop.t", "--at", "1", "--yes"],
            2,
            "rebuild: --at compares only; leave out --yes, or --at",
        ),
        (["schema", "json", "tabel"], 2, "schema json: expected source or table, got tabel"),
    ],
)
def test_a_failure_is_one_sentence_on_stderr_and_an_exit_code(
    arguments: list[str], code: int, said: str
) -> None:
    done = lakehouse(*arguments)

    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "Connection refused"),
        Py4JNetworkError("Answer from Java side is empty"),
        RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."),
    ],
)
def test_that_spark_has_ended_is_said_so(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal to the whole group of a run ended Spark first: `input: Connection refused`."""

    def version() -> None:
        raise error

    monkeypatch.setitem(COMMANDS, "version", version)
    done = lakehouse("version")

    assert done.returncode == 1
    assert done.stderr.startswith("Spark: expected its Java process to answer, but that has ended: ")


def test_debug_shows_the_traceback() -> None:
    done = process("--debug", "ddl", "no/such.sql")

    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("no/such.sql: No such file or directory\n")


# a command that fails on its way out as well, as a lock may whose connection was left in the middle of a call
INTERRUPTED = """
import time
from lakehouse.cli import main

def version():
    print("ready", flush=True)
    try:
        time.sleep(60)
    finally:
        raise ValueError

main.COMMANDS["version"] = version
main.main()
"""


def test_ctrl_c_is_one_line_and_exit_code_130() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, "version"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)

    assert (process.returncode, out) == (130, "")
    assert said == "interrupted; what is done stays, run it again to go on\n"


def test_a_closed_pipe_is_quiet() -> None:
    many = b"ALTER TABLE t ADD COLUMN a INT;\n" * 5000
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "ddl", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(many)
    process.stdin.close()
    process.stdout.readline()
    process.stdout.close()

    assert process.stderr.read() == b""
    process.wait()


# --- validate


def test_validate_says_that_the_committed_configuration_is_good() -> None:
    done = lakehouse("validate")

    assert (done.returncode, done.stdout, done.stderr) == (0, "configs: 0 errors, 0 warnings\n", "")


def test_validate_shows_every_problem_and_exits_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "s.yml").write_text("format: canal\nrecoding: a\n")

    done = lakehouse("validate", str(tmp_path))
    monkeypatch.setenv("LAKEHOUSE_CONFIGS", str(tmp_path))
    as_json = lakehouse("validate", "--json")

    assert done.returncode == as_json.returncode == 2
    assert done.stdout.replace(f"{tmp_path}", "C").splitlines() == [
        "error: C/sources/s.yml:1:1: has no input; add one of kafka, recording or storage",
        "error: C/sources/s.yml:2:1: recoding: unknown option; did you mean `recording`?",
        "C: 2 errors, 0 warnings",
    ]
    assert [json.loads(line) for line in as_json.stdout.splitlines()][1] == {
        "severity": "error",
        "file": f"{tmp_path}/sources/s.yml",
        "line": 2,
        "column": 1,
        "path": "recoding",
        "text": "unknown option",
        "fix": "did you mean `recording`?",
    }


def test_validate_shows_warnings_and_exits_with_0(tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "s.yml").write_text("format: canal\nrecording: a\ntables: auto\n")

    done = lakehouse("validate", str(tmp_path))

    assert done.returncode == 0
    assert done.stdout.startswith(f"warning: {tmp_path}/sources/s.yml:1:1: time_zone: is not said")
    assert done.stdout.endswith("0 errors, 1 warning\n")


# --- inspect


def test_inspect_reads_a_recording_from_a_file_stdin_and_a_message_from_two_files_alike(
    recorded: Path, tmp_path: Path
) -> None:
    (tmp_path / "key").write_bytes(KEY_BYTES)
    (tmp_path / "value").write_bytes(VALUE_BYTES)
    settings = ("--format", "ticdc-open", "--json")

    outputs = [
        lakehouse("inspect", str(recorded), *settings),
        process("inspect", *settings, stdin=recording()),
        process("inspect", "-", *settings, stdin=recording()),
        lakehouse("inspect", "--key", str(tmp_path / "key"), "--value", str(tmp_path / "value"), *settings),
    ]

    events = [json.loads(done.stdout) for done in outputs]
    assert [event.pop("origin")["offset"] for event in events] == [7, 7, 7, 0]
    assert events[0] == events[1] == events[2] == events[3]
    assert (events[0]["op"], events[0]["table"], events[0]["after"]) == (
        "insert",
        "t",
        {"id": 1, "name": "Zoë", "at": "2024-01-02 08:00:00Z"},
    )


def test_inspect_prints_a_readable_line_per_event(recorded: Path) -> None:
    done = lakehouse("inspect", str(recorded), "--format", "ticdc-open")

    assert done.stdout == (
        "topic/0@7[0]  insert shop.t [1] at 2026-11-21 01:06:59 UTC (TSO 470606995728891908)  "
        '+ id=1 name="Zoë" at="2024-01-02 08:00:00Z"\n'
    )


def test_inspect_detects_the_format_and_says_which_it_took(recorded: Path) -> None:
    told, detected = (
        lakehouse("inspect", str(recorded), *format, "--json") for format in (["--format", "ticdc-open"], [])
    )

    assert detected.stdout == told.stdout != ""
    assert detected.stderr == (
        f"{recorded}: taken for ticdc-open, which reads 1 of the first 1 messages; --format names another\n"
    )


def test_inspect_takes_all_settings_from_a_source_and_options_win(tmp_path: Path, recorded: Path) -> None:
    source = tmp_path / "s.yml"
    source.write_text("format: ticdc-open\nrecording: a\ntime_zone: Asia/Shanghai\n")

    shanghai = lakehouse("inspect", str(recorded), "--source", str(source))
    berlin = lakehouse(
        "inspect", str(recorded), "--source", str(source), "--option", "time-zone=Europe/Berlin"
    )

    assert 'at="2024-01-02 00:00:00Z"' in shanghai.stdout
    assert 'at="2024-01-02 07:00:00Z"' in berlin.stdout


def test_inspect_shows_garbage_as_a_dead_letter(tmp_path: Path) -> None:
    (tmp_path / "value").write_bytes(b"\x00garbage")

    done = lakehouse("inspect", "--value", str(tmp_path / "value"), "--format", "canal", "--json")

    assert done.returncode == 0
    assert json.loads(done.stdout)["event"] == "dead_letter"


# --- ddl, schema json, version


def test_ddl_says_what_statements_mean() -> None:
    sql = b"ALTER TABLE t ADD COLUMN a INT;\nDROP TABLE\n  x;"

    text, as_json = process("ddl", stdin=sql), process("ddl", "-", "--json", stdin=sql)

    assert text.stdout.splitlines() == [
        "ALTER TABLE t ADD COLUMN a INT",
        "    alter_table table=t",
        '        add_column column={"name": "a", "type": "int"}',
        "DROP TABLE x",
        '    drop_table tables=["x"]',
    ]
    assert [json.loads(line)["expect"][0]["kind"] for line in as_json.stdout.splitlines()] == [
        "alter_table",
        "drop_table",
    ]


def test_schema_json_prints_or_writes_the_schemas(tmp_path: Path) -> None:
    printed, written = (
        lakehouse("schema", "json", "table"),
        lakehouse("schema", "json", "--to", str(tmp_path / "x")),
    )

    assert json.loads(printed.stdout)["title"] == "lakehouse table"
    assert written.stdout.split() == [str(tmp_path / "x" / "source.json"), str(tmp_path / "x" / "table.json")]
    assert (tmp_path / "x" / "table.json").read_text() == printed.stdout


def test_version_prints_the_version() -> None:
    assert lakehouse("version").stdout.startswith("lakehouse 0.")


def test_a_result_is_lines_and_tables_for_people() -> None:
    result = {
        "source": "shop",
        "watermark": None,
        "tables": [{"table": "a.b", "why": None, "notes": ["x", "y"]}, {"table": "shop.orders", "notes": ()}],
        "problems": ("x", "y"),
    }

    assert result_lines(result).splitlines() == [
        "source: shop",
        "watermark: none",
        "tables:",
        "    table        notes",
        "    a.b          x, y",
        "    shop.orders",
        "problems: x, y",
    ]
    assert result_lines("lake/x.jsonl") == "lake/x.jsonl"


# --- cost

HEAVY = (
    "pyspark",
    "delta",
    "pyarrow",
    "great_expectations",
    "sqlglot",
    "confluent_kafka",
    "google.protobuf",
    "rich",
)


# pydantic is not in the list: typer imports it itself for a command with a path, if it is there.
@pytest.mark.parametrize(
    ("argument", "never"),
    [("--help", (*HEAVY, "yaml", "msgspec")), ("validate", HEAVY), ("version", (*HEAVY, "yaml", "msgspec"))],
)
def test_a_command_imports_only_what_it_needs(argument: str, never: tuple[str, ...]) -> None:
    code = f"import sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {RUN}"

    done = subprocess.run([sys.executable, "-c", code, argument], capture_output=True, cwd=ROOT)

    assert done.returncode == 0
    assert set(done.stderr.decode().split()) & set(never) == set()


def cpu_seconds(code: str, *arguments: str, env: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, check=True, cwd=ROOT, env=env
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("command", ["--help", "validate"])
def test_help_and_validate_cost_less_than_half_a_second_of_cpu_over_python_with_typer(
    command: str, tmp_path: Path
) -> None:
    # Installed packages have their bytecode: a first run writes it where this test may.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
        "PYTHONPYCACHEPREFIX": str(tmp_path)
    }
    bare = "import typer; app = typer.Typer(rich_markup_mode=None); app.command()(lambda: None); app()"
    cpu_seconds(RUN, command, env=env)
    cpu_seconds(bare, env=env)

    extra = min(cpu_seconds(RUN, command, env=env) for _ in range(3)) - min(
        cpu_seconds(bare, env=env) for _ in range(3)
    )

    assert extra < 0.5


def test_the_committed_pages_are_the_commands() -> None:
    from lakehouse.cli.docs import pages

    index = ROOT / "docs/cli.md"
    committed = [index, *sorted(index.with_suffix("").glob("*.md"))]
    assert {path: path.read_text(encoding="utf-8") for path in committed} == pages(index), (
        "run `python -m lakehouse.cli.docs docs/cli.md`"
    )


def test_bronze_is_inspected_with_its_source_and_nothing_else() -> None:
    done = lakehouse("inspect", "x.jsonl", "--topic", "t", "--offset", "7")

    assert (done.returncode, done.stderr) == (
        2,
        "inspect: --topic, --partition and --offset read bronze, and go with --source and --lake only\n",
    )


def test_the_shell_completes_commands_and_their_options() -> None:
    def completed(words: str, at: int) -> list[str]:
        env = {
            **os.environ,
            "_LAKEHOUSE_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(at),
        }
        return subprocess.run(
            [sys.executable, "-c", RUN_AS], env=env, capture_output=True, text=True, cwd=ROOT
        ).stdout.split()

    assert completed("lakehouse in", 1) == ["init", "inspect"]
    assert "--history" in completed("lakehouse status --h", 2)


@pytest.mark.parametrize("text", ("1", "0%", "101%", "few%", ""))
def test_a_sample_is_a_percentage(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a share such as 1%, up to 100%"):
        share(text)


def test_a_share_is_a_part_of_one() -> None:
    assert [share("100%"), share("0.5%")] == [1.0, 0.005]


@pytest.mark.parametrize(
    ("words", "function"),
    [
        (("produce", "r.jsonl"), "lakehouse.sources.kafka_produce.produce"),
        (("replay", "shop"), "lakehouse.spark.readers.bronze_records.replay"),
    ],
)
def test_brokers_behind_a_login_are_reached_with_a_secret_of_the_environment(
    words: tuple[str, ...], function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {}
    monkeypatch.setattr(function, lambda *_, options, **__: given.update(options))
    monkeypatch.setenv("SHOP_LOGIN", 'username="ann" password="s3cret"')
    kafka = (
        "--kafka",
        "kafka.security.protocol=SASL_SSL",
        "--kafka",
        "kafka.sasl.jaas.config=${env:SHOP_LOGIN}",
    )

    done = lakehouse(*words, "--bootstrap-servers", "127.0.0.1:1", *kafka)

    assert (done.returncode, done.stderr) == (0, "")
    assert given == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.jaas.config": 'username="ann" password="s3cret"',
    }


@pytest.mark.parametrize(
    "words",
    [
        "ddl approve shop.t --why x",
        "ddl skip shop.t --why x",
        "fidelity",
        "epoch raise shop --why x",
        "partitions retire shop shop 0 --why x",
        "dead-letters list",
        "dead-letters requeue shop",
        "dead-letters dismiss shop --why x",
        "schema import README.md --at 1 --source shop",
        "schema history shop.t",
        "rejected list",
        "rejected requeue shop.t",
        "quality check",
        "rebuild shop.t",
        "rebuild silver shop",
        "floor raise shop --older-than 90d",
        "maintain",
        "replay shop --to x.jsonl",
    ],
)
def test_a_command_of_an_operator_shows_signs_of_life_while_spark_starts(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def active() -> None:
        time.sleep(0.1)
        raise LakehouseError("Spark: none")

    monkeypatch.setattr("pyspark.sql.SparkSession.active", active)
    monkeypatch.setattr("lakehouse.reporting.heartbeat.IN_A_LOG", 0.02)

    done = lakehouse(*words.split())

    assert done.stderr.startswith("still at work")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "Spark: none")


def test_a_bundle_names_the_next_step_and_goes_with_no_other_option(tmp_path: Path) -> None:
    both = lakehouse("init", "--bundle", str(tmp_path / "b"), "--topic", "shop")
    alone = lakehouse("init", "--bundle", str(tmp_path / "b"))

    assert (both.returncode, both.stdout) == (2, "")
    assert both.stderr == (
        "init: --bundle writes a bundle alone; write its sources with another init, into "
        f"{tmp_path}/b/configs/databricks\n"
    )
    assert alone.returncode == 0
    assert alone.stderr.startswith(f"next: put your sources into {tmp_path}/b/configs/databricks/sources, ")


def test_the_command_that_takes_a_result_over_can_be_given_to_a_shell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Binlog positions are lists, and a table's name may have a space."""
    monkeypatch.setattr("lakehouse.spark.operations.retention.raise_floor", lambda *_, **__: {})
    monkeypatch.setattr("lakehouse.spark.operations.rebuild.rebuild_table", lambda *_, **__: {})
    floor = ("floor", "raise", "shop", "--at", "[0, 1, 4, 1, 0, 0]")

    said = [lakehouse(*words).stdout for words in (floor, ("rebuild", "shop.an order"))]

    assert [shlex.split(text.splitlines()[-1])[2:] for text in said] == [
        [*floor, "--yes", "--why", "…"],
        ["rebuild", "shop.an order", "--yes", "--why", "…"],
    ]


def test_the_tables_that_a_snapshot_would_read_are_a_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "r.jsonl").touch()
    text = f"format: debezium\nrecording: [{tmp_path / 'r.jsonl'}]\n"
    (tmp_path / "sources/shop.yml").write_text(text)
    tables = [{"table": f"shop.t{number}", "rows": number, "bytes": 16384} for number in (1, 20)]
    monkeypatch.setattr("lakehouse.spark.pipeline.snapshot_tables.list_tables", lambda *_: tables)
    words = ("snapshot", "shop", "--check", "--configs", str(tmp_path))

    assert lakehouse(*words).stdout.splitlines() == [
        "tables:",
        "    table     about rows  bytes",
        "    shop.t1   1           16384",
        "    shop.t20  20          16384",
    ]
    assert [json.loads(line) for line in lakehouse(*words, "--json").stdout.splitlines()] == tables
