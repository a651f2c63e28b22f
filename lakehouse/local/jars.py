"""The jars of a laptop: Delta and the Kafka source for Spark, and the Kafka broker. Fetched once, offline ever after.

Ivy, which ships inside pyspark, resolves them from Maven Central (or the repository that $LAKEHOUSE_MAVEN names) into the
cache; no Maven is needed. An entry of the cache is named after what was asked for, so a new version is a new entry.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from lakehouse.errors import EnvironmentError_
from lakehouse.local.cache import made_once
from lakehouse.local.java import java, trust_options

MAVEN_CENTRAL = "https://repo1.maven.org/maven2/"
SPARK = ("io.delta:delta-spark_2.13:4.0.1", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0")
BROKER = ("org.apache.kafka:kafka_2.13:4.1.2", "org.slf4j:slf4j-simple:1.7.36")

_SETTINGS = """<ivysettings>
  <settings defaultResolver="maven"/>
  <caches defaultCacheDir={cache}/>
  <resolvers><ibiblio name="maven" m2compatible="true" root={root}/></resolvers>
</ivysettings>
"""
_MODULE = """<ivy-module version="2.0">
  <info organisation="lakehouse" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
{excludes}
  </dependencies>
</ivy-module>
"""


def spark_jars() -> list[Path]:
    """The jars that a local Spark needs besides its own. The first call needs the network."""
    return _jars("spark", SPARK, _shipped_with_spark())


def broker_jars() -> list[Path]:
    """The class path of a Kafka broker. The first call needs the network."""
    return _jars("broker", BROKER, frozenset())


def _jars(name: str, coordinates: tuple[str, ...], shipped: frozenset[str]) -> list[Path]:
    wanted = hashlib.sha256(" ".join((*coordinates, *sorted(shipped))).encode()).hexdigest()[:16]
    return sorted(made_once(f"jars/{name}-{wanted}", partial(_resolve, coordinates, shipped)).glob("*.jar"))


def _pyspark_jars() -> Path:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise EnvironmentError_("pyspark: expected it to be installed, found none; pip install 'lakehouse[spark]'")
    return Path(found.origin).parent / "jars"


def _shipped_with_spark() -> frozenset[str]:
    """The artifacts that pyspark has already, by name: another version of one on the class path would only do harm."""
    return frozenset(re.sub(r"-\d.*$", "", jar.stem) for jar in _pyspark_jars().glob("*.jar"))


def _resolve(coordinates: tuple[str, ...], shipped: frozenset[str], folder: Path) -> None:
    repository = os.environ.get("LAKEHOUSE_MAVEN") or MAVEN_CENTRAL
    work = folder / ".ivy"
    work.mkdir()
    (work / "ivy.xml").write_text(_module(coordinates, shipped))
    (work / "settings.xml").write_text(_SETTINGS.format(cache=quoteattr(str(work)), root=quoteattr(repository.rstrip("/") + "/")))
    print(f"fetching {' and '.join(coordinates)} from {repository} (once)", file=sys.stderr)
    done = subprocess.run(_command(work, folder), capture_output=True, text=True)
    if done.returncode != 0:
        raise EnvironmentError_(
            f"jars: expected {', '.join(coordinates)} from {repository}, got: {_reason(done.stdout + done.stderr)}; "
            "lakehouse needs the network once to fetch them (LAKEHOUSE_MAVEN names another Maven repository), and is offline ever after"
        )
    shutil.rmtree(work)


def _command(work: Path, folder: Path) -> list[str]:
    pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
    arguments = ["-settings", f"{work}/settings.xml", "-ivy", f"{work}/ivy.xml", "-types", "jar", "bundle", "-retrieve", pattern]
    return [str(java()), *trust_options(), *_proxy_options(), "-cp", f"{_pyspark_jars()}/*", "org.apache.ivy.Main", *arguments]


def _module(coordinates: tuple[str, ...], shipped: frozenset[str]) -> str:
    parts = [text.split(":") for text in coordinates]
    dependencies = [f'    <dependency org="{org}" name="{name}" rev="{rev}" conf="default->default"/>' for org, name, rev in parts]
    excludes = [f'    <exclude module="{name}"/>' for name in sorted(shipped)]
    return _MODULE.format(dependencies="\n".join(dependencies), excludes="\n".join(excludes))


def _proxy_options() -> list[str]:
    """Java does not read https_proxy and its kin."""
    options = []
    for scheme, proxy in urllib.request.getproxies().items():
        address = urlsplit(proxy)
        if scheme in ("http", "https") and address.hostname:
            options += [f"-D{scheme}.proxyHost={address.hostname}", f"-D{scheme}.proxyPort={address.port or 80}"]
    return options


_SIGNS = (
    "Server access error at .*",
    r"Host \S+ not found",
    "(?:Connection|Network|No route|unable to find).*",
    "unresolved dependency: .*",
)


def _reason(log: str) -> str:
    """Ivy's own word on what went wrong, on one line."""
    found = (re.search(sign, log) for sign in _SIGNS)
    return next((match[0].strip().rstrip(".!") for match in found if match), "no answer")
