"""One bundle through the commands that docs/databricks.md says, for one target."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.bundle_files import Bundle, read_bundle, resolved
from tests.support.workspace_state import Json, Workspace

NO_CLI = (
    "expected the Databricks CLI, found none: put `databricks` on the PATH, or name it in $DATABRICKS_CLI"
)
COMMANDS = (
    "bundle validate -t {target}",
    "bundle deploy -t {target}",
    "bundle summary -t {target}",
    "bundle run -t {target} {job}",
    "bundle destroy -t {target}",
)
_COMPLAINT = re.compile(r"^\s*(warn|error|recommendation)", re.IGNORECASE | re.MULTILINE)


class Cli(NamedTuple):
    """The program, the folder of the bundle, and the environment that leads it to a workspace."""

    program: str
    folder: Path
    environment: dict[str, str]


class Ran(NamedTuple):
    """A command, how it ended, and what it wrote."""

    line: str
    status: int
    text: str

    def faults(self) -> Iterator[str]:
        """An error, or a warning."""
        if self.status != 0 or _COMPLAINT.search(self.text):
            yield f"databricks {self.line}: exit {self.status}\n{self.text.strip()}"


def find_cli() -> str | None:
    """The Databricks CLI of this machine; the older tool of that name, which knows no bundles, is none."""
    found = shutil.which(os.environ.get("DATABRICKS_CLI") or "databricks")
    if found is None:
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    return found if said.startswith("Databricks CLI v") else None


def cli_for(program: str, folder: Path, address: str, scratch: Path) -> Cli:
    """The CLI with this workspace as its only one. The engine is its own: Terraform would be fetched."""
    foreign = ("DATABRICKS_", "BUNDLE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    own = {
        "DATABRICKS_HOST": address,
        "DATABRICKS_TOKEN": "none",
        "DATABRICKS_BUNDLE_ENGINE": "direct",
        "DATABRICKS_CONFIG_FILE": str(scratch / "databrickscfg"),
        "DATABRICKS_CACHE_DIR": str(scratch / "cache"),
    }
    return Cli(program, folder, {**kept, **own})


def call(cli: Cli, line: str) -> Ran:
    """Run a command line of the documentation; nobody is there to answer a question."""
    words = [*line.split(), *(["--auto-approve"] if "destroy" in line else [])]
    done = subprocess.run(
        [cli.program, *words],
        cwd=cli.folder,
        env=cli.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    return Ran(line, done.returncode, done.stdout)


def faults_of(cli: Cli, workspace: Workspace, target: str, job: str) -> Iterator[str]:
    """Every fault on the way from an empty workspace to a deployment and back; the first one ends it."""
    validate, deploy, summary, run, destroy = (line.format(target=target, job=job) for line in COMMANDS)
    steps = (
        lambda: call(cli, validate).faults(),
        lambda: call(cli, deploy).faults(),
        lambda: differences(workspace, resolved(read_bundle(cli.folder), target)),
        lambda: _second_deploy(cli, workspace, deploy),
        lambda: call(cli, summary).faults(),
        lambda: call(cli, run).faults(),
        lambda: call(cli, destroy).faults(),
        lambda: _leftovers(workspace),
    )
    for step in steps:
        found = list(step())
        yield from found
        if found:
            break
    yield from (f"the stand-in does not know {line}" for line in workspace.unknown)


def _second_deploy(cli: Cli, workspace: Workspace, deploy: str) -> Iterator[str]:
    """A deploy that changes a resource, or a file other than the CLI's own record."""
    changes, files = len(workspace.changes), dict(workspace.files)
    yield from call(cli, deploy).faults()
    yield from (f"the second deploy: {change}" for change in workspace.changes[changes:])
    changed = {path for path, data in workspace.files.items() if files.get(path) != data}
    yield from (f"the second deploy: writes {path}" for path in sorted(changed) if "/state/" not in path)


def _leftovers(workspace: Workspace) -> Iterator[str]:
    for kind, names in workspace.resources().items():
        if names:
            yield f"destroy: leaves {kind} {', '.join(names)}"
    yield from (f"destroy: leaves {path}" for path in sorted(workspace.files))


def differences(workspace: Workspace, bundle: Bundle) -> Iterator[str]:
    """Where the CLI deployed something else than the tests' own reading of the bundle says."""
    for kind, deployed in (("schemas", workspace.schemas), ("volumes", workspace.volumes)):
        expected = {_full_name(item) for item in bundle["resources"].get(kind, {}).values()}
        if expected != set(deployed):
            yield f"{kind}: expected {sorted(expected)}, got {sorted(deployed)}"
    read = {job["name"]: _command_lines(job["tasks"]) for job in bundle["resources"]["jobs"].values()}
    made = [job["settings"] for job in workspace.jobs.values()]
    got = {settings["name"]: _command_lines(settings["tasks"]) for settings in made}
    yield from (
        f"jobs: expected {name} with {read.get(name)}, got {got.get(name)}"
        for name in {*read, *got}
        if read.get(name) != got.get(name)
    )


def _full_name(item: Bundle) -> str:
    return ".".join(item[name] for name in ("catalog_name", "schema_name", "name") if name in item)


def _command_lines(tasks: list[Json]) -> dict[str, list[str]]:
    inner = [task["for_each_task"]["task"] if "for_each_task" in task else task for task in tasks]
    return {task["task_key"]: task["python_wheel_task"]["parameters"] for task in inner}
