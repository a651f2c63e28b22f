"""As a new user would: a running topic with tables nobody has described, and nothing to read but the
commands' output.
"""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lakehouse.demo.run import RECORDING
from lakehouse.events import Message
from lakehouse.sources.recording import read_recording, write_recording
from tests.cli.test_commands import lakehouse
from tests.support.engine import Memory


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def ok(*arguments: str) -> str:
    done = lakehouse(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_from_a_running_topic_to_exact_tables_and_a_report(
    spark: Any, broker: Any, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(
        "LAKEHOUSE_LAKE", str(tmp_path / "lake")
    )  # the session of the tests was started in another folder
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(tmp_path / "lineage.jsonl"))
    ok("produce", str(RECORDING), "--topic", topic, "--bootstrap-servers", broker.bootstrap)

    # describe it
    written = ok("init", "--topic", topic, "--bootstrap-servers", broker.bootstrap, "--name", "shop")
    assert written.count("written") == 4
    assert sorted(path.name for path in Path("configs").rglob("*.yml")) == [
        "shop.clients.yml",
        "shop.customers.yml",
        "shop.orders.yml",
        "shop.yml",
    ]
    assert "configs: 0 errors, 1 warning" in ok("validate")
    findings = lines(ok("doctor", "--json", "--spark"))
    assert {(finding["check"], finding["about"], finding["state"]) for finding in findings} >= {
        ("broker", broker.bootstrap, "ok"),
        ("topic", topic, "ok"),
        ("format", "shop", "ok"),
        ("feed", "shop", "ok"),
    }

    # run it
    assert lines(ok("plan", "--json"))[0]["lag_messages"] == 58
    assert lines(ok("run", "all", "--json"))[0]["new_messages"] == 58
    again = lines(ok("run", "all", "--json"))[0]
    assert (again["new_messages"], again["silver_batches"], again["gold"]) == (0, 0, "nothing new")

    # what came out is the source
    ok("show", "--all", "--json", "--to", "out")
    silver = Memory("ticdc-open").add(read_recording(RECORDING))
    expected = {name: in_order(rows) for name, rows in silver.tables(silver.watermark).items()}
    assert {
        path.name.removesuffix(".jsonl"): in_order(lines(path.read_text()))
        for path in Path("out").glob("*.jsonl")
    } == expected

    # look at it
    status = lines(ok("status", "--history", "5", "--json"))[0]
    assert {table["table"]: table["state"] for table in status["tables"]} == {
        "shop.clients": "exact",
        "shop.orders": "exact",
    }
    assert [(run["landed"], run["published"], run["outcome"]) for run in status["runs"]] == [(58, True, "ok")]
    page_is_whole(Path("report.html"), ok("report", "--to", "report.html"))
    metrics_are_whole(ok("metrics"), ok("metrics", "--out", "x/lakehouse.prom"))
    record = lines(
        ok(
            "inspect",
            "--source",
            "configs/sources/shop.yml",
            "--topic",
            topic,
            "--partition",
            "0",
            "--offset",
            "0",
            "--json",
        )
    )
    assert {event["origin"]["offset"] for event in record} == {0}
    lineage_is_whole(lines(Path("lineage.jsonl").read_text()), topic, broker.bootstrap, tmp_path)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def page_is_whole(file: Path, said: str) -> None:
    html = file.read_text()
    root = ElementTree.fromstring(html.removeprefix("<!DOCTYPE html>\n"))
    text = " ".join(" ".join(root.itertext()).split())
    assert "report.html" in said
    assert "Nothing needs attention." in text
    assert "2 of 2 tables exact" in text
    assert "TRUNCATE TABLE `shop`.`orders`" in text
    assert len(root.findall(".//svg")) == 4


def metrics_are_whole(printed: str, silent: str) -> None:
    assert silent == ""
    for text in (printed, Path("x/lakehouse.prom").read_text()):
        found = {
            sample.name: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        assert (
            found["lakehouse_lag_messages"],
            found["lakehouse_messages_total"],
            found["lakehouse_last_run_success"],
        ) == (0, 58, 1)
        assert found["lakehouse_broker_up"] == 1


def lineage_is_whole(events: list[dict[str, Any]], topic: str, bootstrap: str, folder: Path) -> None:
    edges = {
        (source["name"], target["name"].removeprefix(str(folder / "lake")))
        for event in events
        if event["eventType"] == "COMPLETE"
        for source in event["inputs"]
        for target in event["outputs"]
    }
    lake = str(folder / "lake")
    assert (topic, "/bronze/shop") in edges
    assert (f"{lake}/bronze/shop", "/silver/shop_changes") in edges
    assert (f"{lake}/silver/shop_changes", "/gold/shop__orders") in edges
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"] * 3
    assert events[0]["inputs"] == [{"namespace": f"kafka://{bootstrap}", "name": topic}]


@pytest.mark.long  # a minute and more
def test_what_went_wrong_is_told_with_its_place(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEHOUSE_LAKE", str(tmp_path / "lake"))
    told = list(read_recording(RECORDING))
    broken = Message("shop", 0, max(m.offset for m in told if m.partition == 0) + 1, b"\x00", b"garbage")
    write_recording([*told, broken], Path("shop.jsonl"))
    (tmp_path / "configs/sources").mkdir(parents=True)
    Path("configs/sources/shop.yml").write_text(
        "format: ticdc-open\ntime_zone: UTC\ntables: auto\nrecording: shop.jsonl\n"
    )
    ok("run", "all")
    Path("configs/sources/shop.yml").write_text(
        "format: ticdc-open\ntime_zone: UTC\ntables: auto\nkafka: {bootstrap_servers: "
        "'127.0.0.1:1', topics: [shop]}\n"
    )
    failed = lakehouse("run", "all")

    runs = lines(ok("status", "--history", "9", "--json"))[0]["runs"]
    ok("report", "--to", "report.html")
    text = " ".join(
        " ".join(
            ElementTree.fromstring(
                Path("report.html").read_text().removeprefix("<!DOCTYPE html>\n")
            ).itertext()
        ).split()
    )
    metrics = {
        sample.name: sample.value
        for family in text_string_to_metric_families(ok("metrics"))
        for sample in family.samples
    }

    assert failed.returncode == 1
    assert [run["outcome"] for run in runs] == [failed.stderr.strip(), "ok"]
    assert f"shop/0@{broken.offset}[0]" in text
    assert "fail broker: 127.0.0.1:1: expected a Kafka broker" in text
    assert "garbage" not in text
    assert (
        metrics["lakehouse_dead_letters"],
        metrics["lakehouse_last_run_success"],
        metrics["lakehouse_broker_up"],
    ) == (1, 0, 0)
