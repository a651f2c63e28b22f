"""Metrics as Prometheus' own parser reads them, and alerts that name only what there is."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from lakehouse.errors import EnvironmentError_
from lakehouse.reporting.prometheus import METRICS, exposition, write_metrics
from tests.reporting.web.test_report import BEGUN, observed
from tests.support.paths import ROOT

DOCS = ROOT / "docs"


def read(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_every_metric_is_there_with_its_type_and_help() -> None:
    source = observed()
    source["status"]["lag_by_partition"] = {"shop/0": 1200, "shop/1": 34}

    families = {family.name: family for family in text_string_to_metric_families(exposition([source]))}

    assert {name.removesuffix("_total") for name in METRICS} == set(families)
    for name, (kind, help_) in METRICS.items():
        family = families[name.removesuffix("_total")]
        assert (family.type, family.documentation) == (kind, help_)


def test_the_values_are_what_status_and_the_batches_say() -> None:
    found = read(exposition([observed()]))

    mine = (("source", "shop"),)
    assert found["lakehouse_lag_messages"][mine] == 1234
    assert found["lakehouse_broker_up"][mine] == 0
    assert found["lakehouse_watermark_timestamp_seconds"][mine] == (BEGUN + 39 * 60_000 - 5_000) / 1000
    assert found["lakehouse_watermark_lag_seconds"][mine] == 65
    assert found["lakehouse_changes_total"][mine] == 34_000
    assert found["lakehouse_last_run_success"][mine] == 0
    assert found["lakehouse_missing_offsets"] == {
        (("partition", "1"), ("source", "shop"), ("topic", "shop")): 12
    }
    states = {
        dict(labels)["table"]: dict(labels)["state"]
        for labels, value in found["lakehouse_table_state"].items()
        if value
    }
    assert states == {
        "shop.orders": "exact",
        "shop.items": "incomplete",
        "shop.log": "behind",
        "shop.old": "retired",
    }
    assert len(found["lakehouse_table_state"]) == 16


def test_a_book_that_does_not_close_is_a_number() -> None:
    source = observed()
    source["status"]["books"] = "open: 3 decoded changes are not accounted for"

    assert read(exposition([source]))["lakehouse_book_open_changes"] == {(("source", "shop"),): 3}


def test_a_source_that_has_not_run_tells_what_it_can() -> None:
    nothing: dict[str, Any] = {
        "status": {"state": "nothing has run yet"},
        "totals": {},
        "batches": [],
        "runs": [],
        "gaps": [],
    }
    new = {"source": "new", "now": BEGUN, **nothing}

    found = read(exposition([new]))

    assert found["lakehouse_messages_total"] == {(("source", "new"),): 0}
    assert "lakehouse_broker_up" not in found
    assert "lakehouse_watermark_timestamp_seconds" not in found


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_name_comes_back_as_it_was(source: str, table: str) -> None:
    told = {**observed(), "source": source}
    told["status"] = {**told["status"], "tables": [{"table": table, "state": "exact"}]}
    text = exposition([told])

    # the parser splits at other line ends than the format does
    if not re.search(r"[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", source + table):
        found = read(text)["lakehouse_table_state"]
        assert {(dict(labels)["source"], dict(labels)["table"]) for labels in found} == {(source, table)}


def test_the_file_appears_whole_and_can_be_read_by_the_collector(tmp_path: Path) -> None:
    file = tmp_path / "x" / "lakehouse.prom"

    write_metrics("a 1\n", file)
    write_metrics("b 2\n", file)

    assert file.read_text() == "b 2\n"
    assert file.stat().st_mode & 0o444 == 0o444
    assert [path.name for path in file.parent.iterdir()] == ["lakehouse.prom"]


def test_a_folder_that_can_not_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(
        EnvironmentError_, match=r"file/x\.prom: expected a file that can be written, got: File exists"
    ):
        write_metrics("", tmp_path / "file" / "x.prom")


def test_the_alert_examples_name_only_metrics_that_there_are() -> None:
    named = set(re.findall(r"lakehouse_[a-z_]+", (DOCS / "alerts.yml").read_text()))

    assert named <= set(METRICS)
    assert len(named) >= 8
