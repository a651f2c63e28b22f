"""What the types of `databricks-bundles` do not see of a Databricks bundle.

`lint` names every fault of a resolved bundle. Some of them the Databricks CLI lets through: dangling keys,
bad cron, two triggers, a pause_status, parallel runs, entry points that do not exist, and parameters that the
entry point's own parser refuses. Others it refuses, or warns of: one key for two resources, a missing field,
a variable without a value, paths that match nothing. Where there is no CLI, nobody else sees those.
"""

import contextlib
import io
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from lakehouse import DISTRIBUTION
from pipelines import parser
from tests.support.bundle_files import Bundle
from tests.support.paths import ROOT
from tests.support.quartz import is_cron

TRIGGERS = ("schedule", "trigger", "triggers", "continuous")
_JOB_PARAMETER = re.compile(r"\{\{job\.parameters\.([^{}]*)\}\}")


def lint(bundle: Bundle, root: Path) -> list[str]:
    """Every fault of a resolved bundle, each as `resource: what`."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    faults = [f"{path}: says pause_status" for path in _paths_of(bundle.get("resources", {}), "pause_status")]
    for name, job in bundle["resources"].get("jobs", {}).items():
        for rule in _JOB_RULES:
            faults += [f"{name}: {fault}" for fault in rule(job)]
        for task in tasks_of(job):
            faults += [
                f"{name}.{task['task_key']}: {fault}" for fault in _task_faults(task, job, scripts, root)
            ]
        faults += [
            f"{name}.{task['task_key']}: {fault}"
            for task in job["tasks"]
            for fault in _for_each_faults(task, root, bundle)
        ]
    return faults + [fault for bundle_rule in _BUNDLE_RULES for fault in bundle_rule(bundle, root)]


def _one_key(bundle: Bundle, root: Path) -> Iterator[str]:
    """A key that two resources have, of whatever kind: `bundle run KEY` would not know which."""
    kinds = {"scripts": bundle.get("scripts", {}), **bundle["resources"]}
    counts = Counter(key for items in kinds.values() for key in items)
    for key, count in counts.items():
        if count > 1:
            having = [kind for kind, items in kinds.items() if key in items]
            yield f"{key}: is the key of {' and '.join(having)}"


_REQUIRED = {
    "jobs": ("name", "tasks"),
    "schemas": ("name", "catalog_name"),
    "volumes": ("name", "catalog_name", "schema_name"),
    "dashboards": ("display_name", "file_path", "warehouse_id"),
}


def _required_fields(bundle: Bundle, root: Path) -> Iterator[str]:
    for kind, items in bundle["resources"].items():
        for name, item in items.items():
            yield from (f"{kind}.{name}: lacks {key}" for key in _REQUIRED[kind] if not item.get(key))
    if "run_as" in bundle and sum(bool(name) for name in bundle["run_as"].values()) != 1:
        yield "run_as: names nobody"


def _values_given(bundle: Bundle, root: Path) -> Iterator[str]:
    """A variable without a value stops every command, also where nothing refers to it."""
    for name, variable in bundle.get("variables", {}).items():
        if "default" not in variable:
            yield f"variables.{name}: has no value"


def _wheel_is_built(bundle: Bundle, root: Path) -> Iterator[str]:
    built = any(artifact.get("type") == "whl" for artifact in bundle.get("artifacts", {}).values())
    if not built and not list(root.glob("wheels/*.whl")):
        yield "artifacts: build no wheel"


def _synced_files(bundle: Bundle, root: Path) -> Iterator[str]:
    """Paths and patterns that match nothing, a configuration that is not uploaded, an environment that is."""
    sync = bundle.get("sync", {})
    paths = sync.get("paths", ["."])
    yield from (f"sync.paths: {path} is not there" for path in paths if not (root / path).exists())
    for key in ("include", "exclude"):
        for pattern in sync.get(key, []):
            if not any(root.glob(pattern)):
                yield f"sync.{key}: {pattern} matches nothing"
    configs = root / bundle["variables"]["configs"]["default"]
    if not any(configs.is_relative_to(root / path) for path in paths):
        yield f"sync.paths: leave out {configs.relative_to(root)}, which the jobs read"
    if "." in paths and ".venv/**" not in sync.get("exclude", []):
        yield "sync.paths: hold .venv, with thousands of files"


def _notebook_faults(bundle: Bundle, root: Path) -> Iterator[str]:
    """Notebooks and dashboards that a resource names and that are not there."""
    for kind, items in bundle["resources"].items():
        for path, text in _named_files(items):
            if not (Path(_folder_of(items, path)) / text).is_file():
                yield f"{kind}.{path}: names {text}, which does not exist"


def _named_files(items: Bundle) -> Iterator[tuple[str, str]]:
    for name, item in items.items():
        if "file_path" in item:
            yield name, item["file_path"]
        for task in tasks_of(item) if "tasks" in item else ():
            if "notebook_task" in task:
                yield f"{name}.{task['task_key']}", task["notebook_task"]["notebook_path"]


def _folder_of(items: Bundle, path: str) -> str:
    return str(items[path.partition(".")[0]]["_folder"])


def _paths_of(value: Any, wanted: str, path: str = "resources") -> Iterator[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        if name == wanted:
            yield path
        yield from _paths_of(item, wanted, f"{path}.{name}")


def tasks_of(job: Bundle) -> list[Bundle]:
    """The tasks that run something: of a for-each, the one inside."""
    return [task["for_each_task"]["task"] if "for_each_task" in task else task for task in job["tasks"]]


WRITERS = ("lakehouse-bronze", "lakehouse-silver", "lakehouse-gold", "lakehouse-layers")


def _shared_writers(bundle: Bundle, root: Path) -> list[str]:
    """Two jobs that run layers of the same sources."""
    jobs = bundle["resources"].get("jobs", {})
    writers = [
        name
        for name, job in jobs.items()
        if any(task.get("python_wheel_task", {}).get("entry_point") in WRITERS for task in tasks_of(job))
    ]
    return [f"{' and '.join(writers)}: write the same lake"] if len(writers) > 1 else []


_BUNDLE_RULES: tuple[Callable[[Bundle, Path], Iterable[str]], ...] = (
    _one_key,
    _required_fields,
    _values_given,
    _wheel_is_built,
    _synced_files,
    _notebook_faults,
    _shared_writers,
)


def inputs_of(task: Bundle) -> list[Any] | None:
    """The inputs of a for-each; None where they are no JSON list."""
    try:
        found = json.loads(task["for_each_task"]["inputs"])
    except (ValueError, TypeError):
        return None
    return found if isinstance(found, list) else None


def _for_each_faults(task: Bundle, root: Path, bundle: Bundle) -> Iterator[str]:
    if "for_each_task" not in task:
        return
    inputs = inputs_of(task)
    if not inputs:
        yield "has inputs that are no JSON list with an item"
        return
    sources = root / bundle["variables"]["configs"]["default"] / "sources"
    yield from (
        f"runs the source {name}, which has no file"
        for name in inputs
        if not (sources / f"{name}.yml").is_file()
    )


def _one_trigger(job: Bundle) -> Iterator[str]:
    said = [name for name in TRIGGERS if name in job]
    if len(said) != 1:
        yield f"has {len(said)} kinds of trigger, expected one"


def _acyclic(job: Bundle) -> Iterator[str]:
    keys = {task["task_key"] for task in job["tasks"]}
    known = [
        {**task, "depends_on": [e for e in task.get("depends_on", []) if e["task_key"] in keys]}
        for task in job["tasks"]
    ]
    try:
        ordered({"tasks": known})
    except ValueError as error:
        yield f"never begins: {error}"


def _one_run(job: Bundle) -> Iterator[str]:
    if job.get("max_concurrent_runs") != 1:
        yield "may run twice at once: max_concurrent_runs is not 1"


def _cron(job: Bundle) -> Iterator[str]:
    text = job.get("schedule", {}).get("quartz_cron_expression")
    if text is not None and not is_cron(text):
        yield "has a schedule that is no Quartz cron expression"


def _unique_keys(job: Bundle) -> Iterator[str]:
    keys = [task["task_key"] for task in job["tasks"]]
    yield from (f"has two tasks {key}" for key in sorted({key for key in keys if keys.count(key) > 1}))


_JOB_RULES: tuple[Callable[[Bundle], Iterator[str]], ...] = (
    _one_trigger,
    _one_run,
    _cron,
    _unique_keys,
    _acyclic,
)


def _task_faults(task: Bundle, job: Bundle, scripts: dict[str, str], root: Path) -> Iterator[str]:
    for kind, listed, given in (
        ("task_key", job["tasks"], [entry["task_key"] for entry in task.get("depends_on", [])]),
        (
            "environment_key",
            job.get("environments", []),
            [task[key] for key in ("environment_key",) if key in task],
        ),
        (
            "job_cluster_key",
            job.get("job_clusters", []),
            [task[key] for key in ("job_cluster_key",) if key in task],
        ),
    ):
        known = {entry[kind] for entry in listed}
        yield from (f"names {kind} {key}, which the job does not have" for key in given if key not in known)
    if "notebook_task" not in task:
        yield from _wheel_faults(task, job, root)
    wheel_task = task.get("python_wheel_task")
    if wheel_task is not None:
        entry = wheel_task["entry_point"]
        if wheel_task.get("package_name") != DISTRIBUTION:
            yield f"looks for {entry} in {wheel_task.get('package_name')}, expected {DISTRIBUTION}"
        if entry not in scripts:
            yield f"calls {entry}, which is no script of the wheel"
        yield from parameter_faults(entry, wheel_task.get("parameters", []), job)


def _wheel_faults(task: Bundle, job: Bundle, root: Path) -> Iterator[str]:
    """Every wheel that a task or its environment names lies where the build puts it, under a name that it can
    have.
    """
    chosen = [
        entry["spec"]
        for entry in job.get("environments", [])
        if entry["environment_key"] == task.get("environment_key")
    ]
    wheels = [text for spec in chosen for text in spec.get("dependencies", []) if text.endswith(".whl")]
    wheels += [library["whl"] for library in task.get("libraries", []) if "whl" in library]
    if not wheels:
        yield "installs no wheel"
    built = (root / "dist" / "lakehouse_cdc-0.0-py3-none-any.whl").resolve()
    for text in wheels:
        place = (Path(job["_folder"]) / text).resolve()
        if not built.match(str(place)) and not list(place.parent.glob(place.name)):
            yield f"installs {text}, which is not where the wheel is built"


def task_arguments(parameters: list[str], job: Bundle, each: str | None = None) -> list[str]:
    """The command line of a task, with the job's parameters at their defaults, and `each` as a for-each's
    input.
    """
    known = {entry["name"]: entry["default"] for entry in job.get("parameters", [])}
    texts = [
        text.replace("{{input}}", "input") if each is None else text.replace("{{input}}", each)
        for text in parameters
    ]
    return [_JOB_PARAMETER.sub(lambda found: str(known[found[1]]), text) for text in texts]


def ordered(job: Bundle) -> list[Bundle]:
    """The job's tasks, each after those it depends on."""
    waiting: list[Bundle] = list(job["tasks"])
    done: list[Bundle] = []
    while waiting:
        ready = [
            t
            for t in waiting
            if {entry["task_key"] for entry in t.get("depends_on", [])} <= {task["task_key"] for task in done}
        ]
        if not ready:
            raise ValueError("the tasks wait for each other")
        done += ready
        waiting = [task for task in waiting if task not in ready]
    return done


def parameter_faults(entry: str, parameters: list[str], job: Bundle) -> Iterator[str]:
    try:
        arguments = task_arguments(parameters, job)
    except KeyError as error:
        yield f"uses the job parameter {error.args[0]}, which the job does not have"
        return
    heard = io.StringIO()
    try:
        with contextlib.redirect_stderr(heard):
            parser(entry).parse_args(arguments)
    except SystemExit:
        yield (
            f"has parameters that {entry} refuses: "
            f"{heard.getvalue().strip().splitlines()[-1].rpartition('error: ')[2]}"
        )
