"""The Databricks bundle: strict types per target, our own lint, and every kind of fault that the lint must
see.
"""

import copy
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from databricks.bundles.dashboards import Dashboard
from databricks.bundles.jobs import Job
from databricks.bundles.schemas import Schema
from databricks.bundles.volumes import Volume

import lakehouse
from lakehouse import __version__
from lakehouse.config.load import problems
from lakehouse.databricks.bundle import pack_wheel, write_bundle
from lakehouse.databricks.dashboard import text
from lakehouse.errors import LakehouseError
from pipelines import parser
from tests.support.bundle_files import Bundle, plain, read_bundle, resolved
from tests.support.bundle_lint import lint, task_arguments
from tests.support.paths import ROOT
from tests.support.quartz import is_cron

TARGETS = ("dev", "staging", "prod")
CONTINUOUS = "resources/continuous/*.yml"
FOR_EACH = "resources/for_each/*.yml"
DASHBOARD = "resources/dashboard/*.yml"
VERIFY = "resources/verify/*.yml"
# what nobody can know beforehand: whom production runs as, and the dashboard's warehouse
GIVEN = {"run_as": "11111111-2222-3333-4444-555555555555"}
KINDS: dict[str, Any] = {"jobs": Job, "schemas": Schema, "volumes": Volume, "dashboards": Dashboard}


def scheduled() -> Bundle:
    return read_bundle(ROOT)


def continuous() -> Bundle:
    bundle = read_bundle(ROOT, CONTINUOUS)
    del bundle["resources"]["jobs"]["lakehouse"]
    return bundle


def for_each() -> Bundle:
    bundle = read_bundle(ROOT, FOR_EACH)
    del bundle["resources"]["jobs"]["lakehouse"]
    return bundle


def with_dashboard() -> Bundle:
    bundle = read_bundle(ROOT, DASHBOARD)
    bundle["variables"]["warehouse_id"]["default"] = "0123456789abcdef"
    return bundle


def with_verify() -> Bundle:
    return read_bundle(ROOT, VERIFY)


VARIANTS = [scheduled, continuous, for_each, with_dashboard, with_verify]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_resource_of_every_target_has_the_types_that_databricks_takes(
    variant: Callable[[], Bundle], target: str
) -> None:
    bundle = resolved(variant(), target, **GIVEN)

    made = {
        kind: [KINDS[kind].from_dict(plain(item)) for item in items.values()]
        for kind, items in bundle["resources"].items()
    }

    counts = {kind: len(items) for kind, items in made.items()}
    jobs = 4 if variant is with_verify else 3
    assert counts == {"jobs": jobs, "schemas": 4, "volumes": 2} | (
        {"dashboards": 1} if variant is with_dashboard else {}
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_lint_finds_nothing_in_any_target(variant: Callable[[], Bundle], target: str) -> None:
    assert lint(resolved(variant(), target, **GIVEN), ROOT) == []


def test_a_field_that_databricks_does_not_know_is_refused() -> None:
    job = plain(resolved(scheduled(), "dev")["resources"]["jobs"]["lakehouse"])

    with pytest.raises(ValueError, match="Unexpected field 'max_concurent_runs' for class Job"):
        Job.from_dict({**job, "max_concurent_runs": 1})


def test_the_scheduled_job_runs_bronze_then_silver_then_gold() -> None:
    tasks = resolved(scheduled(), "prod")["resources"]["jobs"]["lakehouse"]["tasks"]

    order = [
        (task["task_key"], [before["task_key"] for before in task.get("depends_on", [])]) for task in tasks
    ]

    assert order == [("bronze", []), ("silver", ["bronze"]), ("gold", ["silver"])]


def test_the_job_that_compares_installs_what_speaks_to_a_database() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    job = resolved(with_verify(), "prod", **GIVEN)["resources"]["jobs"]["verify"]

    assert set(extras["database"]) <= set(job["environments"][0]["spec"]["dependencies"])


def test_only_production_runs_by_itself() -> None:
    assert [resolved(scheduled(), target)["paused"] for target in TARGETS] == [True, True, False]


def test_code_follows_the_names_that_development_gives_to_schemas() -> None:
    job = resolved(scheduled(), "dev")["resources"]["jobs"]["lakehouse"]

    given = dict(
        parser("lakehouse-gold")
        .parse_args(task_arguments(job["tasks"][2]["python_wheel_task"]["parameters"], job))
        .env
    )

    assert given["LAKEHOUSE_GOLD"] == "dev_ada_gold"
    assert given["LAKEHOUSE_VOLUME"] == "/Volumes/main/dev_ada_ops/checkpoints"


def test_production_may_write_what_it_does_not_own() -> None:
    schemas = resolved(scheduled(), "prod", **GIVEN)["resources"]["schemas"]

    granted = {name: [grant["principal"] for grant in item["grants"]] for name, item in schemas.items()}

    runs = GIVEN["run_as"]
    assert granted == {"bronze": [runs], "silver": [runs], "gold": ["account users", runs], "ops": [runs]}


def test_a_reference_to_nothing_is_an_error() -> None:
    bundle = scheduled()
    bundle["resources"]["jobs"]["lakehouse"]["description"] = "${var.nothing}"

    with pytest.raises(ValueError, match=r"^\$\{var\.nothing\}: is not defined$"):
        resolved(bundle, "dev")


def job_of(bundle: Bundle) -> Bundle:
    return bundle["resources"]["jobs"]["lakehouse"]  # type: ignore[no-any-return]


def seed(path: str, value: Any) -> Callable[[Bundle], None]:
    """Put a value at a dotted path of the job."""

    def plant(bundle: Bundle) -> None:
        place: Any = job_of(bundle)
        *parts, last = path.split(".")
        for part in parts:
            place = place[int(part)] if part.isdecimal() else place[part]
        place[int(last) if last.isdecimal() else last] = value

    return plant


def second_writer(bundle: Bundle) -> None:
    bundle["resources"]["jobs"]["again"] = copy.deepcopy(job_of(bundle))


def no_wheel(bundle: Bundle) -> None:
    bundle["artifacts"].clear()


def everything_synced(bundle: Bundle) -> None:
    del bundle["sync"]["paths"]


def no_dashboard(bundle: Bundle) -> None:
    bundle["resources"]["dashboards"]["lakehouse_dashboard"]["file_path"] = "elsewhere.lvdash.json"


def notebook(bundle: Bundle) -> None:
    job_of(bundle)["tasks"].append(
        {"task_key": "explore", "notebook_task": {"notebook_path": "../notebooks/explore.py"}}
    )


def each(inputs: str) -> Bundle:
    inside = {
        "task_key": "one",
        "python_wheel_task": {"entry_point": "lakehouse-layers", "parameters": ["--select", "{{input}}"]},
    }
    return {"inputs": inputs, "task": {**inside, "environment_key": "lakehouse"}}


TASK = "tasks.1.python_wheel_task"
FAULTS = {
    "depends_on": (
        seed("tasks.1.depends_on", [{"task_key": "bronce"}]),
        "lakehouse.silver: names task_key bronce, which the job does not have",
    ),
    "environment_key": (
        seed("environments.0.environment_key", "other"),
        "lakehouse.gold: names environment_key lakehouse, which the job does not have",
    ),
    "job_cluster_key": (
        seed("tasks.0.job_cluster_key", "big"),
        "lakehouse.bronze: names job_cluster_key big, which the job does not have",
    ),
    "two tasks": (seed("tasks.2.task_key", "silver"), "lakehouse: has two tasks silver"),
    "cron": (
        seed("schedule.quartz_cron_expression", "*/15 * * * *"),
        "lakehouse: has a schedule that is no Quartz cron expression",
    ),
    "two triggers": (seed("continuous", {}), "lakehouse: has 2 kinds of trigger, expected one"),
    "pause_status": (
        seed("schedule.pause_status", "UNPAUSED"),
        "resources.jobs.lakehouse.schedule: says pause_status",
    ),
    "concurrent runs": (
        seed("max_concurrent_runs", 4),
        "lakehouse: may run twice at once: max_concurrent_runs is not 1",
    ),
    "entry point": (
        seed(f"{TASK}.entry_point", "lakehouse-sliver"),
        "lakehouse.silver: calls lakehouse-sliver, which is no script of the wheel",
    ),
    "wheel": (
        seed("environments.0.spec.dependencies", ["dist/*.whl"]),
        "lakehouse.bronze: installs dist/*.whl, which is not where the wheel is built",
    ),
    "no wheel": (
        seed("environments.0.spec.dependencies", ["msgspec"]),
        "lakehouse.bronze: installs no wheel",
    ),
    "parameters": (
        seed(f"{TASK}.parameters", ["--onse"]),
        "lakehouse.silver: has parameters that lakehouse-silver refuses: unrecognized arguments: --onse",
    ),
    "job parameter": (
        seed(f"{TASK}.parameters", ["--configs", "{{job.parameters.config}}"]),
        "lakehouse.silver: uses the job parameter config, which the job does not have",
    ),
    "two writers": (second_writer, "lakehouse and again: write the same lake"),
    "cycle": (
        seed("tasks.0.depends_on", [{"task_key": "gold"}]),
        "lakehouse: never begins: the tasks wait for each other",
    ),
    "dashboard": (
        no_dashboard,
        "dashboards.lakehouse_dashboard: names elsewhere.lvdash.json, which does not exist",
    ),
    "notebook": (notebook, "jobs.lakehouse.explore: names ../notebooks/explore.py, which does not exist"),
    "for-each": (
        seed("tasks.0.for_each_task", each("shop")),
        "lakehouse.bronze: has inputs that are no JSON list with an item",
    ),
    "source": (
        seed("tasks.0.for_each_task", each('["shp"]')),
        "lakehouse.bronze: runs the source shp, which has no file",
    ),
    "no artifact": (no_wheel, "artifacts: build no wheel"),
    "sync": (everything_synced, "sync.paths: hold .venv, with thousands of files"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_the_lint_sees_a_seeded_fault_of_each_kind(kind: str) -> None:
    plant, expected = FAULTS[kind]
    bundle = resolved(with_dashboard(), "prod", **GIVEN)
    plant(bundle)

    assert expected in lint(bundle, ROOT)


@pytest.mark.parametrize(
    "text",
    ["0 0/15 * * * ?", "0 0 8-18 ? * MON-FRI", "0 0 0 L * ? 2027", "0 15,45 * 1 1/3 ?", "0 0 6 ? * 2#1"],
)
def test_a_quartz_expression_is_one(text: str) -> None:
    assert is_cron(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * * *",
        "0 0 24 * * ?",
        "0 60 * * * ?",
        "0 0 0 * * *",
        "0 0 0 ? * ?",
        "0 0 0 1 13 ?",
        "0 0/x * * * ?",
        "0 0 0 ? * 2#6",
    ],
)
def test_what_is_no_quartz_expression_is_none(text: str) -> None:
    assert not is_cron(text)


def test_the_dashboard_is_the_generators() -> None:
    assert (ROOT / "resources/dashboard/lakehouse.lvdash.json").read_text() == text(["sample"])


def test_the_deployed_configuration_is_valid_and_reads_nothing_that_a_workspace_lacks() -> None:
    folder = ROOT / resolved(scheduled(), "prod")["variables"]["configs"]["default"]

    assert problems(folder) == []
    assert "127.0.0.1" not in "".join(path.read_text() for path in folder.rglob("*.yml"))
    assert (folder / "sample.jsonl").read_bytes() == (ROOT / "lakehouse/demo/demo.jsonl").read_bytes()


def test_init_writes_a_bundle_that_passes_with_the_package_as_its_wheel(tmp_path: Path) -> None:
    written = write_bundle(tmp_path)

    bundle = read_bundle(tmp_path)
    faults = [lint(resolved(bundle, target, **GIVEN), tmp_path) for target in TARGETS]
    assert faults == [[]] * 3
    assert written[-1].name == f"lakehouse_cdc-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(written[-1]) as wheel:
        names = wheel.namelist()
        assert {"lakehouse/cli/main.py", "pipelines/gold.py", "lakehouse/demo/demo.jsonl"} <= set(names)
        assert (
            "lakehouse = lakehouse.cli.main:main"
            in wheel.read(next(name for name in names if name.endswith("entry_points.txt"))).decode()
        )
    with pytest.raises(
        LakehouseError, match=r"expected no such file, found one; write the bundle into another folder$"
    ):
        write_bundle(tmp_path)


def test_a_package_without_its_metadata_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lakehouse, "DISTRIBUTION", "lakehouse-of-nobody")

    with pytest.raises(LakehouseError, match=r"^lakehouse-of-nobody: expected it to be installed, found"):
        pack_wheel(tmp_path)
