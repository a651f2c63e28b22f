"""A Databricks bundle as its targets see it, and what nobody else checks of it.

`resolved` merges the files, applies a target with its presets, and puts values in the place of `${…}`; `lint`
names every fault that the real tools let through: dangling keys, bad cron, two triggers, a pause_status,
parallel runs, entry points and wheels that do not exist, and parameters that the entry point's own parser
refuses.
"""

import contextlib
import copy
import io
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from pipelines import parser
from tests.support.paths import ROOT

USER = "ada@example.com"
TRIGGERS = ("schedule", "trigger", "triggers", "continuous")
Bundle = dict[str, Any]
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_JOB_PARAMETER = re.compile(r"\{\{job\.parameters\.([^{}]*)\}\}")


def read_bundle(root: Path, *more: str) -> Bundle:
    """databricks.yml and what it includes, each resource with the `_folder` of its file; `more` is included
    too.
    """
    bundle: Bundle = yaml.safe_load((root / "databricks.yml").read_text())
    resources = bundle.setdefault("resources", {})
    for pattern in (*bundle.pop("include"), *more):
        for file in sorted(root.glob(pattern)):
            for kind, items in yaml.safe_load(file.read_text())["resources"].items():
                for name, item in items.items():
                    resources.setdefault(kind, {})[name] = {**item, "_folder": str(file.parent)}
    return bundle


def resolved(bundle: Bundle, target: str) -> Bundle:
    """The bundle as this target deploys it."""
    bundle = copy.deepcopy(bundle)
    chosen = bundle.pop("targets")[target]
    merged: Bundle = _merge(bundle, {name: value for name, value in chosen.items() if name != "default"})
    prefix = (
        "dev_ada_"
        if merged.get("mode") == "development"
        else merged.get("presets", {}).get("name_prefix", "")
    )
    for kind, named in (("jobs", "name"), ("schemas", "name"), ("dashboards", "display_name")):
        for item in merged["resources"].get(kind, {}).values():
            item[named] = prefix + item[named]
    paused = (
        merged.get("mode") == "development"
        or merged.get("presets", {}).get("trigger_pause_status") == "PAUSED"
    )
    merged["paused"] = paused
    values = _values(merged, target)
    return _substitute(merged, values, ())  # type: ignore[no-any-return]


def _merge(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return {
            name: _merge(one.get(name), other[name]) if name in other else one[name]
            for name in {**one, **other}
        }
    return one if other is None else other


def _values(bundle: Bundle, target: str) -> dict[str, Any]:
    root = bundle.get("workspace", {}).get(
        "root_path", f"/Workspace/Users/{USER}/.bundle/{bundle['bundle']['name']}/{target}"
    )
    values = {
        "bundle.name": bundle["bundle"]["name"],
        "bundle.target": target,
        "workspace.current_user.userName": USER,
        "workspace.root_path": root,
        "workspace.file_path": f"{root}/files",
    }
    values |= {
        f"var.{name}": said.get("default", f"<{name}>") for name, said in bundle.get("variables", {}).items()
    }
    for name, schema in bundle["resources"].get("schemas", {}).items():
        values[f"resources.schemas.{name}.name"] = schema["name"]
    for name, volume in bundle["resources"].get("volumes", {}).items():
        values[f"resources.volumes.{name}.volume_path"] = (
            f"/Volumes/{volume['catalog_name']}/{volume['schema_name']}/{volume['name']}"
        )
    return values


def _substitute(value: Any, values: dict[str, Any], seen: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {name: _substitute(item, values, seen) for name, item in value.items()}
    if isinstance(value, list):
        return [_substitute(item, values, seen) for item in value]
    if not isinstance(value, str):
        return value
    whole = _REFERENCE.fullmatch(value)
    if whole:
        return _lookup(whole[1], values, seen)
    return _REFERENCE.sub(lambda found: str(_lookup(found[1], values, seen)), value)


def _lookup(name: str, values: dict[str, Any], seen: tuple[str, ...]) -> Any:
    if name not in values or name in seen:
        raise ValueError(f"${{{name}}}: is not defined")
    return _substitute(values[name], values, (*seen, name))


def plain(resource: Bundle) -> Bundle:
    """The resource without what `read_bundle` noted."""
    return {name: value for name, value in resource.items() if name != "_folder"}


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
    artifacts = bundle.get("artifacts", {})
    if not any(artifact.get("type") == "whl" for artifact in artifacts.values()) and not list(
        root.glob("wheels/*.whl")
    ):
        faults.append("artifacts: build no wheel")
    if ".venv/**" not in bundle.get("sync", {}).get("exclude", []):
        faults.append("sync.exclude: lacks .venv/**")
    return [*faults, *_notebook_faults(bundle), *_shared_writers(bundle)]


def _notebook_faults(bundle: Bundle) -> Iterator[str]:
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


def _shared_writers(bundle: Bundle) -> list[str]:
    """Two jobs that run layers of the same sources."""
    jobs = bundle["resources"].get("jobs", {})
    writers = [
        name
        for name, job in jobs.items()
        if any(task.get("python_wheel_task", {}).get("entry_point") in WRITERS for task in tasks_of(job))
    ]
    return [f"{' and '.join(writers)}: write the same lake"] if len(writers) > 1 else []


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
    built = (root / "dist" / "lakehouse-0.0-py3-none-any.whl").resolve()
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


_NAMES = {
    3: ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    5: ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
}
_BOUNDS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (1, 7), (1970, 2199))


def is_cron(text: str) -> bool:
    """Is it a Quartz cron expression: seconds to year, and exactly one of the two days is `?`"""
    fields = text.split()
    if len(fields) not in (6, 7) or [fields[3], fields[5]].count("?") != 1:
        return False
    return all(_is_field(index, part) for index, field in enumerate(fields) for part in field.split(","))


def _is_field(index: int, text: str) -> bool:
    if text in ("?", "L", "LW") or (index == 5 and "#" in text):
        return (
            index in (3, 5)
            and (text != "LW" or index == 3)
            and ("#" not in text or re.fullmatch(r"[1-7]#[1-5]", text) is not None)
        )
    span, slash, step = text.partition("/")
    if slash and not step.isdecimal():
        return False
    low, dash, high = span.partition("-")
    return span == "*" or (_is_value(index, low) and (not dash or _is_value(index, high)))


def _is_value(index: int, text: str) -> bool:
    low, high = _BOUNDS[index]
    return text.upper() in _NAMES.get(index, ()) or (text.isdecimal() and low <= int(text) <= high)
