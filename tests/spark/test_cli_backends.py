"""What the commands call is there: their modules are imported late, so no import would tell."""

import importlib
import re

import pytest

from tests.support.paths import ROOT

LAKEHOUSE = ROOT / "lakehouse"
FOLDERS = {"backend": "lakehouse.spark", "_local": "lakehouse"}
_CALL = re.compile(r'\b(backend|_local)\("([\w.]+)"\)\.(\w+)')
_IMPORT = re.compile(r'import_module\("([\w.]+)"\)\.(\w+)')


def calls() -> list[tuple[str, str]]:
    found = set()
    for file in (LAKEHOUSE / "cli").glob("*.py"):
        text = file.read_text()
        found |= {(f"{FOLDERS[kind]}.{module}", name) for kind, module, name in _CALL.findall(text)}
        found |= set(_IMPORT.findall(text))
    return sorted(found)


@pytest.mark.parametrize(("module", "name"), calls(), ids=lambda part: part)
def test_what_a_command_calls_is_there(module: str, name: str) -> None:
    assert callable(getattr(importlib.import_module(module), name))


def test_the_commands_were_found() -> None:
    assert {
        ("lakehouse.spark.readers.status", "plan"),
        ("lakehouse.spark.readers.report", "report"),
        ("lakehouse.discovery.write_config", "init"),
    } <= set(calls())
