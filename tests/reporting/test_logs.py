"""What is said on stderr, as lines and as JSON."""

import json
import logging
from datetime import datetime
from typing import Any

import pytest

from lakehouse.reporting.logs import JsonFormatter, say
from tests.cli.test_commands import lakehouse


def told(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_progress_is_plain_text_unless_json_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKEHOUSE_LOG_FORMAT", raising=False)
    say("warning: shop: 3 files are not whole")
    plain = capsys.readouterr().err
    monkeypatch.setenv("LAKEHOUSE_LOG_FORMAT", "json")
    say("warning: shop: 3 files are not whole")
    say("silver  shop: batch 1\nof two lines")
    found = told(capsys.readouterr().err)

    assert plain == "warning: shop: 3 files are not whole\n"
    assert [(line["level"], line["message"]) for line in found] == [
        ("warning", "shop: 3 files are not whole"),
        ("info", "silver  shop: batch 1\nof two lines"),
    ]
    assert datetime.fromisoformat(found[0]["ts"]).tzinfo is not None


def test_an_error_of_a_command_is_one_json_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_LOG_FORMAT", "text")

    done = lakehouse("--log-format", "json", "ddl", "no/such.sql")

    assert done.returncode == 1
    assert [(line["level"], line["message"]) for line in told(done.stderr)] == [
        ("error", "no/such.sql: No such file or directory")
    ]


def test_an_unknown_form_is_refused() -> None:
    done = lakehouse("--log-format", "xml", "version")

    assert (done.returncode, done.stderr) == (2, "--log-format xml: expected text or json\n")


def test_a_logged_exception_is_told_by_its_type_and_never_by_its_text() -> None:
    try:
        raise ValueError("a row's value")
    except ValueError as error:
        record = logging.LogRecord(
            "lakehouse.x", logging.WARNING, "", 0, "batch %s failed", (7,), (type(error), error, None)
        )

    line = json.loads(JsonFormatter().format(record))

    assert (line["level"], line["logger"], line["message"], line["error"]) == (
        "warning",
        "lakehouse.x",
        "batch 7 failed",
        "ValueError",
    )
    assert "a row's value" not in JsonFormatter().format(record)
