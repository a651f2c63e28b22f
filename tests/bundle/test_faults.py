"""A fault of each kind in a copy of the bundle: our own checks see it, and the CLI where there is one."""

from pathlib import Path

import pytest

from tests.bundle.cases import CASES, TARGETS, Case, prepare
from tests.bundle.deploy import NO_CLI, call, cli_for, find_cli
from tests.bundle.faults import FAULTS, faulty
from tests.support.bundle_files import read_bundle, resolved
from tests.support.bundle_lint import lint
from tests.support.workspace_server import serve
from tests.support.workspace_state import Workspace


def lint_of(folder: Path, target: str) -> list[str]:
    """What can be said of a bundle without the CLI."""
    try:
        return lint(resolved(read_bundle(folder), target), folder)
    except ValueError as error:
        return [str(error)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_bundle_has_a_fault_in_any_target(case: Case, target: str, tmp_path: Path) -> None:
    case.write(tmp_path)
    prepare(tmp_path, target)

    assert lint_of(tmp_path, target) == []


@pytest.mark.parametrize("name", FAULTS)
def test_the_lint_sees_a_fault_of_each_kind(name: str, tmp_path: Path) -> None:
    fault = faulty(name, tmp_path)

    assert fault.lint in lint_of(tmp_path, fault.target)


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.cli is not None])
def test_the_cli_sees_it_too(name: str, tmp_path: Path) -> None:
    program = find_cli()
    if program is None:
        pytest.skip(NO_CLI)
    folder = tmp_path / "bundle"
    folder.mkdir()
    fault = faulty(name, folder)

    with serve(Workspace()) as address:
        cli = cli_for(program, folder, address, tmp_path)
        done = call(cli, f"bundle validate -t {fault.target}")
        if not list(done.faults()):
            done = call(cli, f"bundle deploy -t {fault.target}")

    assert list(done.faults())
    assert fault.cli is not None and fault.cli in done.text
