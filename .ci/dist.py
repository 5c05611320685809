"""Check the wheel and the sdist in a folder: metadata, contents, and the wheel in an empty environment on each Python.

python .ci/dist.py dist
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
JUNK = ("__pycache__", ".pyc", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".venv", ".db-wal")
CORE = {"clew", "msgspec", "ormsgpack", "backports.zstd", "pip", "setuptools"}
"""The distributions that an environment may have once the core is installed."""

SAVE_AND_LOAD = """
import sys
import clew
assert clew.__version__ == sys.argv[1], clew.__version__
with clew.connect(f"sqlite:///{sys.argv[2]}/agent.db") as memory:
    memory.put_state("trip", {"messages": ["Lisbon?"]})
    memory.put_state("trip", {"messages": ["Lisbon?", "In May."]})
with clew.connect(f"sqlite:///{sys.argv[2]}/agent.db") as memory:
    assert memory.get_state("trip") == {"messages": ["Lisbon?", "In May."]}
    assert len(memory.list_checkpoints("trip")) == 2
"""


class DistError(Exception):
    """A check failed."""


def main(arguments: Sequence[str]) -> int:
    (folder,) = map(Path, arguments)
    try:
        wheel, sdist = _only(folder, "*.whl"), _only(folder, "*.tar.gz")
        version = check_wheel(wheel)
        check_sdist(sdist)
        print(f"contents: {wheel.name}, {sdist.name}")
        missing = []
        for name in VERSIONS:
            if python := find_python(name):
                check_install(python, wheel, version)
            else:
                missing.append(name)
    except DistError as error:
        print(f"dist: {error}", file=sys.stderr)
        return 1
    if missing:
        print(f"NOT CHECKED, because not found on the PATH or among pyenv's: Python {', '.join(missing)}")
    return 0


def check_wheel(wheel: Path) -> str:
    """Check that the wheel has every file of the package and nothing else. Return its version."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        version = str(message_from_bytes(archive.read(metadata))["Version"])
    folder = metadata.partition("/")[0]
    packed = {name for name in names if not name.startswith(f"{folder}/")}
    sources = {path.relative_to(ROOT / "src").as_posix() for path in _files(ROOT / "src" / "clew")}
    _same("wheel", packed, sources)
    for kind in ("clew/py.typed", ".sql", ".lua"):
        if not any(name.endswith(kind) for name in packed):
            raise DistError(f"the wheel has no {kind}")
    return version


def check_sdist(sdist: Path) -> None:
    """Check that the sdist has every file that git tracks, and no caches."""
    with tarfile.open(sdist) as archive:
        packed = {each.name.partition("/")[2] for each in archive.getmembers() if each.isfile()}
    if junk := sorted(name for name in packed if any(part in name for part in JUNK)):
        raise DistError(f"the sdist has files that don't belong there: {', '.join(junk[:5])}")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        tracked = {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}
        _same("sdist", packed - {"PKG-INFO"}, tracked)


def check_install(python: str, wheel: Path, version: str) -> None:
    """Install the wheel in an empty environment, then save, load and run the demo there."""
    with tempfile.TemporaryDirectory(prefix="clew-dist-") as place:
        _run([python, "-m", "venv", f"{place}/venv"])
        own, clew = f"{place}/venv/bin/python", f"{place}/venv/bin/clew"
        install = [own, "-m", "pip", "--disable-pip-version-check", "-qq", "install"]
        _run([*install, str(wheel)])
        script = "from importlib.metadata import distributions; print(*{each.name.lower() for each in distributions()})"
        if extra := set(_run([own, "-c", script]).split()) - CORE:
            raise DistError(f"the core install brings {', '.join(sorted(extra))}")
        _run([own, "-W", "error", "-c", SAVE_AND_LOAD, version, place])
        told = subprocess.run([clew, "demo"], capture_output=True, text=True, check=False)
        if told.returncode != 2 or "pip install 'clew[cli]'" not in told.stderr or len(told.stderr.splitlines()) != 1:
            raise DistError(f"`clew` without its extra: exit code {told.returncode}\n{told.stderr}")
        _run([*install, f"{wheel}[cli]"])
        _run([clew, "demo"])
        print(f"installed, saved, loaded and ran the demo: {_run([own, '--version']).strip()}", flush=True)


def find_python(version: str) -> str | None:
    """Return a Python of that version: from the PATH, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}[.-]*/bin/python")))]
    for each in candidates:
        # A shim of pyenv's is on the PATH even when it can't start anything.
        check = f"import ensurepip, sqlite3, sys, venv; assert sys.version.startswith({version + '.'!r})"
        if each and subprocess.run([each, "-c", check], capture_output=True, check=False).returncode == 0:
            return each
    return None


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise DistError(f"{folder} has {len(found)} files like {pattern}, not one; empty it and build again")
    return found[0].resolve()


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def _same(what: str, packed: set[str], expected: set[str]) -> None:
    if missing := sorted(expected - packed):
        raise DistError(f"the {what} lacks {', '.join(missing[:5])}")
    if extra := sorted(packed - expected):
        raise DistError(f"the {what} has files that don't belong there: {', '.join(extra[:5])}")


def _run(command: Sequence[str]) -> str:
    # Away from the sources, so that the wheel is what gets imported.
    done = subprocess.run(command, cwd=tempfile.gettempdir(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise DistError(f"{' '.join(command)[:200]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
