"""Lineage events against OpenLineage's own JSON Schemas, and their ways out: a file, and an HTTP endpoint."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from lakehouse.reporting.openlineage import Dataset, LayerRun, events, path_dataset, topic_dataset
from lakehouse.reporting.openlineage_client import is_asked_for, job_namespace, send
from tests.support.paths import DATA

SCHEMAS = [json.loads(path.read_text()) for path in sorted((DATA / "openlineage").glob("*.json"))]
REGISTRY: Any = Registry().with_resources(
    [(schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS]
)
PRODUCER = "https://example.com/lakehouse/1"


def check(event: dict[str, Any], schema: str) -> None:
    Draft202012Validator(
        {"$ref": schema}, registry=REGISTRY, format_checker=Draft202012Validator.FORMAT_CHECKER
    ).validate(event)


def a_run(error: str | None = None) -> LayerRun:
    inputs = [topic_dataset("broker:9092, other:9092", "shop")]
    outputs = [path_dataset("lake/bronze/shop", "/data")._replace(rows=7)]
    return LayerRun(
        "shop", "bronze", 1_790_000_000_000, 1_790_000_001_500, inputs, outputs, error, {"landed": 7}
    )


@pytest.mark.parametrize("error", [None, "shop: the broker is gone"])
def test_every_event_and_facet_is_what_its_schema_wants(error: str | None) -> None:
    told = list(events(a_run(error), "prod", PRODUCER))

    for event in told:
        check(event, "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent")
        check(event["job"]["facets"], "https://openlineage.io/spec/facets/2-0-4/JobTypeJobFacet.json")
        check(event["run"]["facets"], "https://openlineage.io/spec/facets/1-0-1/ErrorMessageRunFacet.json")
    assert [event["eventType"] for event in told] == ["START", "COMPLETE" if error is None else "FAIL"]
    assert [event["eventTime"] for event in told] == ["2026-09-21T14:13:20.000Z", "2026-09-21T14:13:21.500Z"]
    assert told[0]["run"]["runId"] == told[1]["run"]["runId"]


def test_an_end_says_what_was_read_and_written_and_how_much() -> None:
    _, complete = events(a_run(), "prod", PRODUCER)
    _, failed = events(a_run("broken"), "prod", PRODUCER)

    assert complete["job"]["name"] == "shop.bronze"
    assert complete["inputs"] == [{"namespace": "kafka://broker:9092", "name": "shop"}]
    assert (complete["outputs"][0]["namespace"], complete["outputs"][0]["name"]) == (
        "file",
        "/data/lake/bronze/shop",
    )
    assert complete["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 7
    assert complete["run"]["facets"]["lakehouse_run"]["landed"] == 7
    assert failed["run"]["facets"]["errorMessage"]["message"] == "broken"


def test_a_run_told_twice_is_one_run_and_another_is_another() -> None:
    first, again, other = (
        next(events(run, "prod", PRODUCER))["run"]["runId"]
        for run in (a_run(), a_run(), LayerRun("shop", "silver", 1_790_000_000_000, 1, [], []))
    )

    assert first == again != other


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("/lake/gold/t", "file", "/lake/gold/t"),
        ("lake/gold/t", "file", "/here/lake/gold/t"),
        ("s3a://bucket/lake/gold/t", "s3://bucket", "lake/gold/t"),
        ("abfss://c@a.dfs.core.windows.net/lake", "abfss://c@a.dfs.core.windows.net", "lake"),
        ("gs://bucket", "gs://bucket", "/"),
        ("file:///lake", "file", "/lake"),
    ],
)
def test_datasets_are_named_by_the_conventions(path: str, namespace: str, name: str) -> None:
    assert path_dataset(path, "/here") == Dataset(namespace, name)


def test_events_go_to_a_file_as_json_lines(tmp_path: Path) -> None:
    env = {
        "OPENLINEAGE__TRANSPORT__TYPE": "file",
        "OPENLINEAGE__TRANSPORT__LOG_FILE_PATH": str(tmp_path / "x" / "events.jsonl"),
    }

    assert is_asked_for(env)
    assert send(events(a_run(), "prod", PRODUCER), env) == 2
    assert send(events(a_run(), "prod", PRODUCER), env) == 2

    lines = (tmp_path / "x" / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["eventType"] for line in lines] == ["START", "COMPLETE"] * 2


class Listener(HTTPServer):
    received: list[tuple[str, str | None, Any]]


@pytest.fixture
def listener() -> Iterator[Listener]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.server.received.append((self.path, self.headers["Authorization"], body))  # type: ignore[attr-defined]
            self.send_response(201)
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = Listener(("127.0.0.1", 0), Handler)
    server.received = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def test_events_go_to_an_endpoint_with_its_key(listener: Listener) -> None:
    env = {
        "OPENLINEAGE_URL": f"http://127.0.0.1:{listener.server_port}/",
        "OPENLINEAGE_API_KEY": "k",
        "OPENLINEAGE_NAMESPACE": "prod",
    }

    assert send(events(a_run(), job_namespace(env), PRODUCER), env) == 2

    assert [(path, key, body["eventType"]) for path, key, body in listener.received] == [
        ("/api/v1/lineage", "Bearer k", "START"),
        ("/api/v1/lineage", "Bearer k", "COMPLETE"),
    ]
    assert listener.received[0][2]["job"]["namespace"] == "prod"


def test_a_listener_that_does_not_answer_is_a_warning_and_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("WARNING")
    assert send(events(a_run(), "prod", PRODUCER), {"OPENLINEAGE_URL": "http://user:secret@127.0.0.1:1"}) == 0

    assert "OpenLineage: events were not delivered" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("env", "asked"),
    [
        ({}, False),
        ({"OPENLINEAGE_URL": "http://x"}, True),
        ({"OPENLINEAGE_URL": "http://x", "OPENLINEAGE_DISABLED": "true"}, False),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "file"}, False),
    ],
)
def test_nobody_is_told_unless_the_environment_says_so(env: dict[str, str], asked: bool) -> None:
    assert is_asked_for(env) is asked
