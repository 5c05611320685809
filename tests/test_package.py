"""The package and its house: extras, version, the files for GitHub, and the make targets that they name."""

from __future__ import annotations

import importlib.util
import re
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import clew
from clew.errors import MissingExtraError
from tests.checkpointer.support import python

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
YAML = [*WORKFLOWS, *sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ROOT / ".pre-commit-config.yaml"]

WITHOUT = """
import runpy, sys
sys.stderr = sys.stdout
for name in sys.argv[1].split(","):
    sys.modules[name] = None
sys.argv = ["clew", "demo"]
try:
    runpy.run_module("clew", run_name="__main__")
except SystemExit as ended:
    print("exit code", ended.code)
"""
LOADED = """
import sys
import clew
with clew.connect("memory://") as memory:
    memory.put_state("t", {"a": 1})
    assert memory.get_state("t") == {"a": 1}
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_the_version_is_written_in_one_place():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert "version" not in PROJECT["project"]
    source = ROOT / PROJECT["tool"]["hatch"]["version"]["path"]
    assert re.findall(r'^__version__ = "(.+)"$', source.read_text("utf-8"), re.MULTILINE) == [clew.__version__]
    assert "version" not in yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))


def test_the_core_needs_no_extra():
    extras = {name for names in PROJECT["project"]["optional-dependencies"].values() for name in names}
    loaded = set(python(LOADED).split())
    assert not loaded & ({re.split(r"[\[<>=; ]", each)[0].replace("-", "_") for each in extras} - {"clew"})
    needed = {re.split(r"[<>=; ]", each)[0] for each in PROJECT["project"]["dependencies"]}
    assert needed == {"msgspec", "ormsgpack", "backports.zstd"}


@pytest.mark.parametrize("missing", ["typer", "rich", "typer,rich"])
def test_the_command_without_its_extra_says_what_to_install(missing):
    assert python(WITHOUT, missing).splitlines() == [
        f"clew: the command line needs {missing.partition(',')[0]}: pip install 'clew[cli]'",
        "exit code 2",
    ]


def test_every_extra_that_the_code_names_exists():
    named = set()
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        for group in re.findall(r"(?:clew|'\.)\[([a-z,]+)\]'", path.read_text("utf-8")):
            named |= set(group.split(","))
    assert named <= set(PROJECT["project"]["optional-dependencies"])
    assert issubclass(MissingExtraError, ImportError)


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_every_yaml_file_can_be_parsed(path):
    assert isinstance(yaml.safe_load(path.read_text("utf-8")), dict)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_make_target_that_a_workflow_names_exists(path):
    jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job.get("steps", ()) if "run" in step]
    named = {name for command in commands for name in re.findall(r"^make ([a-z-]+)", command, re.MULTILINE)}
    assert named <= TARGETS
    for job in jobs.values():
        needs = job.get("needs", [])
        assert ({needs} if isinstance(needs, str) else set(needs)) <= set(jobs)
        # A job runs steps on a machine, or another workflow of this repository.
        assert job["runs-on"] if "steps" in job else (ROOT / job["uses"]).is_file()


def test_ci_covers_every_python_and_server_that_the_docs_promise():
    matrix = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]["tests"]
    rows = matrix["strategy"]["matrix"]["include"]
    classifiers = PROJECT["project"]["classifiers"]
    pythons = {each.rpartition(" ")[2] for each in classifiers if re.search(r":: 3\.\d+$", each)}
    assert {row["python"] for row in rows} == pythons
    assert {row["postgres"] for row in rows} == {"14", "15", "16", "17", "18"}
    assert {re.sub(r"\..*", "", row["redis"]) for row in rows} == {"redis:6", "redis:7", "redis:8", "valkey/valkey:8"}
    assert set(matrix["env"]) == {"CLEW_TEST_POSTGRES_URL", "CLEW_TEST_REDIS_URL"}


def test_every_make_target_that_the_pages_name_exists():
    for page in ("README.md", "CONTRIBUTING.md", ".github/pull_request_template.md"):
        named = set(re.findall(r"`make ([a-z][a-z-]*)", (ROOT / page).read_text("utf-8")))
        assert named <= TARGETS, page


def test_contributing_lists_every_make_target():
    listed = set(re.findall(r"^\| `make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE))
    assert listed == TARGETS - {"help"}


@pytest.fixture(scope="module")
def dist():
    """The script that checks what `make dist` built."""
    spec = importlib.util.spec_from_file_location("clew_dist", ROOT / ".ci" / "dist.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestDist:
    @staticmethod
    def wheel(tmp_path, *, without="", more=""):
        path = tmp_path / "clew-9.8-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("clew-9.8.dist-info/METADATA", "Name: clew\nVersion: 9.8\n")
            for each in (ROOT / "src" / "clew").rglob("*"):
                if each.is_file() and "__pycache__" not in each.parts and each.name != without:
                    archive.write(each, each.relative_to(ROOT / "src"))
            if more:
                archive.writestr(more, "")
        return path

    def test_a_wheel_with_the_whole_package_passes(self, dist, tmp_path):
        assert dist.check_wheel(self.wheel(tmp_path)) == "9.8"

    @pytest.mark.parametrize("wrong", [{"without": "py.typed"}, {"more": "tests/test_a.py"}, {"more": "clew/a.db"}])
    def test_a_wheel_that_lacks_or_adds_a_file_fails(self, dist, tmp_path, wrong):
        with pytest.raises(dist.DistError, match=r"py\.typed|don't belong"):
            dist.check_wheel(self.wheel(tmp_path, **wrong))

    def test_a_python_that_is_not_there_is_not_found(self, dist):
        assert dist.find_python("2.3") is None
