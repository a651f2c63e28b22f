"""What commands print for people. A case in tests/cases/ is the records that `--json` prints (`.jsonl`) and
the text that a reviewer has read (`.txt`); `python -m tests.reporting.test_text` writes the texts again.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lakehouse.cli.output import event_line, result_lines
from lakehouse.reporting.text.layout import Part, drawn
from lakehouse.reporting.text.lists import (
    audit_parts,
    check_parts,
    fidelity_parts,
    finding_parts,
    history_parts,
    letter_parts,
    rejected_parts,
    verify_parts,
)
from lakehouse.reporting.text.rows import change_rows, row_lines
from lakehouse.reporting.text.runs import demo_parts, outcome_parts, plan_parts
from lakehouse.reporting.text.status import status_parts
from lakehouse.reporting.text.tables import View, shared_tables
from tests.support.paths import ROOT

CASES = ROOT / "tests/cases"
NOW = 1_795_223_402.0  # three minutes after the records' watermark
ORDERS = {"erp": "binlog", "canal": "arrival", "sink": "files"}
Records = list[dict[str, Any]]


def views(records: Sequence[dict[str, Any]]) -> dict[str, View]:
    shared = shared_tables(records)
    return {
        name: View(ORDERS.get(name, "tidb"), "s3://lake" if name == "erp" else None, NOW, shared)
        for name in (record["source"] for record in records)
    }


def run(records: Records) -> list[Part]:
    seen = views(records)
    return [part for record in records for part in outcome_parts(record, seen[record["source"]])]


def demo(records: Records) -> list[Part]:
    outcome, *rows = records
    view = views([outcome])["demo"]
    return list(demo_parts(outcome, view, {"shop.clients": rows}, "lake/_report.html"))


def lines(found: Sequence[str]) -> str:
    return "".join(line + "\n" for line in found)


TEXTS: dict[str, Callable[[Records], str]] = {
    "status": lambda records: drawn(status_parts(records, views(records))),
    "plan": lambda records: drawn(plan_parts(records)),
    "run": lambda records: drawn(run(records)),
    "demo": lambda records: drawn(demo(records)),
    "show": lambda records: lines(list(row_lines(records))),
    "show-silver": lambda records: lines(list(row_lines(change_rows(records)))),
    "dead-letters": lambda records: drawn(letter_parts(records, View())),
    "rejected": lambda records: drawn(rejected_parts(records, View())),
    "schema-history": lambda records: drawn(history_parts(records)),
    "audit": lambda records: drawn(audit_parts(records)),
    "verify": lambda records: drawn(verify_parts(records)),
    "verify-repair": lambda records: drawn(verify_parts(records)),
    "fidelity": lambda records: drawn(fidelity_parts(records)),
    "doctor": lambda records: drawn(finding_parts(records)),
    "quality-check": lambda records: drawn(check_parts(records)),
    "results": lambda records: "\n".join(lines([result_lines(record)]) for record in records),
    "inspect": lambda records: lines([event_line(record) for record in records]),
}
# The same records on a terminal of 80 columns.
ON_A_TERMINAL: dict[str, Callable[[Records], str]] = {
    "status": lambda records: drawn(status_parts(records[:1], views(records)), 80, colours=True),
    "show": lambda records: lines(list(row_lines(records, 80))),
}


def read(name: str) -> Records:
    return [json.loads(line) for line in (CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", TEXTS)
def test_a_command_prints_the_text_that_was_reviewed(name: str) -> None:
    assert TEXTS[name](read(name)) == (CASES / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ON_A_TERMINAL)
def test_a_terminal_shows_the_text_that_was_reviewed(name: str) -> None:
    expected = (CASES / f"{name}-on-a-terminal.txt").read_text(encoding="utf-8")

    assert ON_A_TERMINAL[name](read(name)).replace("\x1b", "␛") == expected


def test_every_case_is_compared() -> None:
    names = {*TEXTS, *(f"{name}-on-a-terminal" for name in ON_A_TERMINAL)}

    assert {path.stem for path in CASES.glob("*.txt")} == names
    assert {path.stem for path in CASES.glob("*.jsonl")} == set(TEXTS)


def write() -> None:
    """Write all texts again; the diff is what to review."""
    for name, text in TEXTS.items():
        (CASES / f"{name}.txt").write_text(text(read(name)), encoding="utf-8")
    for name, text in ON_A_TERMINAL.items():
        shown = text(read(name)).replace("\x1b", "␛")
        (CASES / f"{name}-on-a-terminal.txt").write_text(shown, encoding="utf-8")


if __name__ == "__main__":
    write()
