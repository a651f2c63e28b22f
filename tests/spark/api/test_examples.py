"""Every example of the API's docstrings and of its page, run on the demo's lake."""

import doctest
import warnings
from pathlib import Path
from typing import Any

import pytest

from lakehouse.api import open_lake
from lakehouse.spark.api import opened
from tests.support.paths import ROOT

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PAGE = ROOT / "docs/python-api.md"


@pytest.fixture
def globs(demo: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(demo)
    return {"open_lake": open_lake, "lake": open_lake("./lake")}


def failures(tests: list[doctest.DocTest], globs: dict[str, Any]) -> tuple[int, str]:
    """How many examples were run, and what the failing ones printed."""
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    with warnings.catch_warnings():
        for test in tests:
            test.globs = dict(globs)
            runner.run(test, out=said.append)
    return runner.tries, "".join(said)


def test_the_examples_of_the_docstrings_give_what_they_say(globs: dict[str, Any]) -> None:
    tests = doctest.DocTestFinder().find(opened)

    tried, said = failures(tests, globs)

    assert said == ""
    assert tried >= 25
    public = {name for name in vars(opened.OpenLake) if not name.startswith("_")}
    shown = {test.name.rpartition(".")[2] for test in tests if test.examples}
    assert public <= shown | {"spark", "location"}


def test_the_examples_of_the_page_give_what_they_say(globs: dict[str, Any]) -> None:
    page = doctest.DocTestParser().get_doctest(PAGE.read_text("utf-8"), {}, "page", str(PAGE), 0)

    tried, said = failures([page], globs)

    assert said == ""
    assert tried >= 10


def test_a_wrong_example_is_seen(globs: dict[str, Any]) -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> lake.key('shop.orders')\n['di']\n", {}, "x", "x", 0)

    assert "Expected:\n    ['di']" in failures([wrong], globs)[1]
