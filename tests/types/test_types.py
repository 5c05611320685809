"""The public types, as mypy and pyright see them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.factory.option_types import CheckpointerOptions, ConnectOptions, SharedOptions
from clew.factory.options import option_names

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "src"


def mypy(program: Path, cache: Path) -> list[int]:
    """The lines in which mypy finds mistakes."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context"]
    done = subprocess.run(
        [*command, "--cache-dir", str(cache), "--config-file", os.devnull, program.name],
        capture_output=True,
        text=True,
        cwd=HERE,
        env={**os.environ, "MYPYPATH": str(SOURCES)},
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    # Errors in Clew itself are a matter of `make lint`.
    found = re.findall(rf"^{re.escape(program.name)}:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    print(done.stdout)
    return sorted({int(line) for line, _ in found})


def pyright(programs: list[Path], directory: Path) -> dict[str, list[int]]:
    """The lines in which pyright finds mistakes, for each program.

    Its Python package downloads pyright itself from the npm registry when it first runs, so a machine
    without that network can't run it.
    """
    for program in programs:
        (directory / program.name).write_text(program.read_text())
    settings = {"include": ["."], "extraPaths": [str(SOURCES)], "typeCheckingMode": "standard"}
    (directory / "pyrightconfig.json").write_text(json.dumps(settings))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pyright", "--outputjson", "-p", str(directory)],
            capture_output=True,
            text=True,
            cwd=directory,
            check=False,
            timeout=500,
        )
        found = json.loads(done.stdout)
    except (ValueError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"PYRIGHT DID NOT RUN, so only mypy checked the types: {error}: {done.stderr[-500:]}")
    lines: dict[str, set[int]] = {program.name: set() for program in programs}
    for each in found["generalDiagnostics"]:
        if each["severity"] == "error":
            print(each["file"], each["range"]["start"]["line"] + 1, each["message"])
            lines[Path(each["file"]).name].add(each["range"]["start"]["line"] + 1)
    return {name: sorted(numbers) for name, numbers in lines.items()}


def wrong_lines(program: Path) -> list[int]:
    return [number for number, line in enumerate(program.read_text().splitlines(), 1) if line.endswith("# wrong")]


@pytest.mark.slow
def test_mypy_sees_the_types_of_states_and_finds_mistakes(tmp_path):
    assert mypy(HERE / "right.py", tmp_path) == []
    wrong = HERE / "wrong.py"
    assert mypy(wrong, tmp_path) == wrong_lines(wrong)


@pytest.mark.slow
def test_pyright_sees_the_types_of_states_and_finds_mistakes(tmp_path):
    programs = [HERE / "right.py", HERE / "wrong.py"]
    assert pyright(programs, tmp_path) == {program.name: wrong_lines(program) for program in programs}


def test_the_typed_options_are_those_of_the_classes():
    classes: list[Any] = [
        clew.InMemoryCheckpointer,
        clew.SQLiteCheckpointer,
        clew.PgCheckpointer,
        clew.RedisCheckpointer,
        clew.RedisCheckpointer.from_client,
        clew.DistributedCheckpointer,
    ]
    every = {name for each in classes for name in option_names(each)} | {"secondary"}
    assert set(ConnectOptions.__annotations__) | {"state_type"} == every
    assert {*CheckpointerOptions.__annotations__, "state_type"} == set(option_names(clew.Checkpointer))
    assert set(SharedOptions.__annotations__) == set(CheckpointerOptions.__annotations__) - {"clock"}
