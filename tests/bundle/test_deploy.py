"""The Databricks CLI deploys the bundle without an error or a warning; `python -m tests.bundle` tries all of
them.
"""

import re
from pathlib import Path

import pytest

from tests.bundle import command
from tests.bundle.cases import CASES, TARGETS, give, own
from tests.bundle.command import deploy_case, main
from tests.bundle.deploy import COMMANDS, NO_CLI, call, cli_for, find_cli
from tests.support.paths import ROOT
from tests.support.workspace_server import serve
from tests.support.workspace_state import Workspace


@pytest.mark.parametrize("name", ["init-scheduled", "init-dashboard"])
def test_the_cli_deploys_what_init_writes_twice_runs_it_and_removes_it(name: str, tmp_path: Path) -> None:
    program = find_cli()
    if program is None:
        pytest.skip(NO_CLI)
    case = next(case for case in CASES if case.name == name)

    assert deploy_case(program, case, TARGETS, tmp_path) == {target: [] for target in TARGETS}


def test_an_edit_of_the_bundle_reaches_what_was_deployed_before_and_nothing_else(tmp_path: Path) -> None:
    program = find_cli()
    if program is None:
        pytest.skip(NO_CLI)
    folder, workspace = tmp_path / "bundle", Workspace()
    folder.mkdir()
    own(folder)
    with serve(workspace) as address:
        cli = cli_for(program, folder, address, tmp_path)
        first = call(cli, "bundle deploy -t dev")
        known = len(workspace.changes)
        give(folder, "schedule", "0 0 1 * * ?")
        second = call(cli, "bundle deploy -t dev")

    assert [*first.faults(), *second.faults(), *workspace.unknown] == []
    assert workspace.changes[known:] == ["update job [dev ada] lakehouse"]


def test_the_commands_of_the_documentation_are_those_that_are_run() -> None:
    text = (ROOT / "docs/databricks.md").read_text()
    written = re.findall(r"^databricks (bundle .*)$", text, re.M)

    run = {line.format(target=target, job="lakehouse") for line in COMMANDS for target in TARGETS}
    assert set(written) <= run
    assert {line.split()[1] for line in written} == {line.split()[1] for line in COMMANDS}


def test_without_the_cli_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_cli", lambda: None)

    assert main([]) == 2
    assert capsys.readouterr().err == NO_CLI + "\n"
