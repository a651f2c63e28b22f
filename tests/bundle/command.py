"""Deploy every bundle for every target, and print what passed, and the faults of what did not."""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bundle.cases import CASES, TARGETS, Case, prepare
from tests.bundle.deploy import NO_CLI, cli_for, faults_of, find_cli
from tests.support.workspace_server import serve
from tests.support.workspace_state import Workspace


def deploy_case(program: str, case: Case, targets: Sequence[str], scratch: Path) -> dict[str, list[str]]:
    """The faults of each target, in a workspace of its own."""
    folder = scratch / case.name
    folder.mkdir()
    case.write(folder)
    found = {}
    for target in targets:
        prepare(folder, target)
        workspace = Workspace()
        with serve(workspace) as address:
            cli = cli_for(program, folder, address, scratch)
            found[target] = list(faults_of(cli, workspace, target, case.job))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 where everything passed, 1 where something failed, 2 where there is no CLI."""
    parser = argparse.ArgumentParser(prog="python -m tests.bundle", description=__doc__)
    names = [case.name for case in CASES]
    parser.add_argument("case", nargs="*", metavar="CASE", help=f"default: all of {', '.join(names)}")
    parser.add_argument("--target", action="append", choices=TARGETS, help="default: all")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.case if name not in names]
    if unknown:
        parser.error(f"{unknown[0]}: expected one of {', '.join(names)}")
    program = find_cli()
    if program is None:
        print(NO_CLI, file=sys.stderr)
        return 2
    print(subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip())
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        for case in CASES:
            if case.name in (given.case or names):
                failed |= _report(program, case, given.target or TARGETS, Path(scratch))
    return 1 if failed else 0


def _report(program: str, case: Case, targets: Sequence[str], scratch: Path) -> bool:
    """Print a case's outcome; whether it failed."""
    begun = time.monotonic()
    found = deploy_case(program, case, targets, scratch)
    for target, faults in found.items():
        print(f"{case.name:24}{target:9}{'FAILED' if faults else 'passed'}")
        for fault in faults:
            print("    " + fault.replace("\n", "\n    "))
    print(f"{case.name:24}{time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return any(found.values())
