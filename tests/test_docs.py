"""The docs have every exported name, method, command, option, error and route, and the site every page."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

import clew
from clew.cli.app import app
from clew.factory import URL_OPTIONS
from clew.server.interchange import from_json, to_json
from docsite import http
from docsite.pages import PROJECT

DOCS = Path(__file__).parent.parent / "docs"
ENTRIES = set(
    re.findall(r"^::: ([\w.]+)$", "".join(page.read_text("utf-8") for page in DOCS.rglob("*.md")), re.MULTILINE)
)
"""The names that have an entry in the API reference."""
ROWS = re.compile(r"^\| `([^`]+)` \| (.*?) \|", re.MULTILINE)
COMMANDS: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def sections(page: str) -> dict[str, str]:
    """Return the texts under a page's headings, by the heading without its placeholders."""
    parts = re.split(r"^## `([^`]+)`\n", (DOCS / page).read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {
        " ".join(re.findall(r"\b[a-z]+\b", title)): text for title, text in zip(parts[::2], parts[1::2], strict=True)
    }


def options_of(command: Any) -> set[str]:
    return {name for each in command.params for name in each.opts if name.startswith("--") and name != "--help"}


def documented(text: str) -> set[str]:
    return {name.split()[0] for name, _ in ROWS.findall(text) if name.startswith("--")}


def test_every_command_is_documented():
    assert set(sections("cli.md")) == {"clew", *(f"clew {name}" for name in COMMANDS)}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_documented(name):
    assert documented(sections("cli.md")[f"clew {name}"]) == options_of(COMMANDS[name])


def test_every_global_option_is_documented():
    assert documented(sections("cli.md")["clew"]) == options_of(typer.main.get_command(app))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_a_help_text(name):
    assert COMMANDS[name].help
    assert all(each.help for each in COMMANDS[name].params if each.name != "help")


def test_every_option_of_connect_is_documented_with_its_default():
    options = {
        name: each.default
        for cls in (
            clew.BaseCheckpointer,
            clew.SQLiteCheckpointer,
            clew.PgCheckpointer,
            clew.RedisCheckpointer,
            clew.DistributedCheckpointer,
        )
        for name, each in inspect.signature(cls).parameters.items()
        if each.kind is each.KEYWORD_ONLY
    }
    rows = {
        name: default
        for name, default in ROWS.findall((DOCS / "configuration.md").read_text("utf-8"))
        if name.isidentifier() and name.islower()
    }
    assert set(rows) == set(options)
    for name, default in options.items():
        shown = rows[name]
        assert f"`{default!r}`" in shown or name == "clock", f"{name}: {default!r} and not {shown}"
    assert set(URL_OPTIONS) <= set(options)


def test_every_error_is_documented():
    text = (DOCS / "errors.md").read_text("utf-8")
    errors = {
        name
        for name in clew.__all__
        if isinstance(getattr(clew, name), type) and issubclass(getattr(clew, name), clew.ClewError)
    }
    assert {name for name in errors if f"`{name}`" not in text and f"`clew.{name}`" not in text} == set()


def test_every_test_that_the_table_of_frameworks_names_is_there():
    named = set(re.findall(r"`(test_\w+)`", (DOCS / "frameworks.md").read_text("utf-8")))
    tests = "".join(path.read_text("utf-8") for path in (Path(__file__).parent / "adapters").rglob("test_*.py"))
    assert len(named) > 30
    assert {name for name in named if f"def {name}(" not in tests} == set()


def test_the_tests_that_the_page_on_security_names_are_there():
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", (DOCS / "security.md").read_text("utf-8"))
    assert len(named) > 20
    missing = [name for path, name in named if f"def {name}(" not in (DOCS.parent / path).read_text("utf-8")]
    assert missing == []


def test_every_exported_name_is_in_the_reference():
    named = {f"clew.{name}" for name in clew.__all__}
    errors = {f"clew.{name}" for name in clew.__all__ if is_error(getattr(clew, name))}
    assert named - ENTRIES - errors == {"clew.BaseCheckpointer"}, "add ::: entries to a page of docs/reference"
    assert "`clew.BaseCheckpointer` is another name" in (DOCS / "reference" / "checkpointer.md").read_text("utf-8")


def is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, clew.ClewError)


def test_every_method_of_a_checkpointer_is_in_the_reference():
    public = {name for name in dir(clew.Checkpointer) if not name.startswith("_")}
    # An entry for `put_state` documents `aput_state` too (docsite/twins.py).
    wanted = {name for name in public if not (name.startswith("a") and name[1:] in public)}
    assert {f"clew.Checkpointer.{name}" for name in wanted} - ENTRIES == set()
    assert {"get_history", "delete_checkpoint", "clear_state", "delete_runs"} <= wanted


def exported(module: str) -> set[str]:
    """Return the public names of a module of Clew, without importing it and the framework that it needs."""
    place = DOCS.parent / "src" / module.replace(".", "/")
    text = (place / "__init__.py" if place.is_dir() else place.with_suffix(".py")).read_text("utf-8")
    names = set()
    for node in ast.parse(text).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=listed):
                return set(ast.literal_eval(listed))
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) if not name.startswith("_"):
                names.add(name)
    return names


PUBLIC = ["clew.server", "clew.testing"] + [
    f"clew.adapters.{name}" for name in ("agentflow", "injection", "langgraph", "llmfy", "openai_agents")
]


@pytest.mark.parametrize("module", PUBLIC)
def test_every_name_of_a_public_module_is_in_the_reference(module):
    assert {f"{module}.{name}" for name in exported(module)} == {
        each for each in ENTRIES if each.rpartition(".")[0] == module
    }


def test_every_public_member_of_an_exported_class_has_a_docstring():
    """Members without one are not in the reference."""
    without = []
    for name in clew.__all__:
        exported = getattr(clew, name)
        if not isinstance(exported, type):
            continue
        assert exported.__doc__, name
        for member, value in vars(exported).items():
            if member.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property | classmethod)):
                continue
            if not inspect.getdoc(value):
                without.append(f"{name}.{member}")
    assert without == []


def test_every_entry_of_the_reference_exists():
    """Those of other modules are compared above."""
    own = {each.removeprefix("clew.") for each in ENTRIES if each.rpartition(".")[0] not in PUBLIC}
    methods = {each.removeprefix("Checkpointer.") for each in own if "." in each}
    assert {name for name in own if "." not in name} - set(clew.__all__) == set()
    assert methods - set(dir(clew.Checkpointer)) == set()


def test_the_page_of_routes_is_that_of_the_server():
    document = http.openapi()
    text = http.PAGE.read_text("utf-8")
    assert len(http.routes(document)) > 30
    assert {name for name in http.routes(document) if f"### `{name}`\n" not in text} == set()
    assert text == http.page(text, document), "run: python -m docsite.http"


INTERCHANGE = (DOCS / "reference" / "interchange.md").read_text("utf-8")


def test_the_interchange_forms_are_those_of_the_server():
    forms = [json.loads(form) for form in re.findall(r'`(\{"\$type".*?\})`', INTERCHANGE)]
    assert len(forms) > 12
    assert [form for form in forms if form["$type"] != "text" and to_json(from_json(form)) != form] == []


def test_every_interchange_type_is_documented():
    with pytest.raises(clew.ConfigError) as refused:
        from_json({"$type": "unheard of"})
    known = re.findall(r"\w+", str(refused.value).partition("known types are ")[2])
    assert "tuple" in known
    assert {name for name in known if f'"{name}"' not in INTERCHANGE and f"`{name}`" not in INTERCHANGE} == set()


def long_lines(text: str) -> list[str]:
    """Return the lines of prose with more than 100 characters, not counting addresses. Code, tables, pictures, HTML
    and generated parts are no prose."""
    text = re.sub(r"<!-- (.+?): made by .*?<!-- end of \1 -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)
    prose = [line for line in text.splitlines() if not line.lstrip().startswith(("|", "![", "<"))]
    return [line for line in prose if len(re.sub(r"\]\([^)]*\)|https?://\S+", "", line)) > 100]


PAGES = [path for path in (*DOCS.parent.glob("*.md"), *DOCS.rglob("*.md")) if path != http.PAGE]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(DOCS.parent).as_posix())
def test_a_line_of_prose_has_at_most_100_characters(page):
    assert long_lines(page.read_text("utf-8")) == []


def test_only_long_lines_of_prose_are_found():
    long = "word " * 30
    left = f"| {long} |\n```text\n{long}\n```\n<!-- goals: made by x -->\n{long}\n<!-- end of goals -->\n![{long}](x.svg)\n"
    assert long_lines(f"{left}short [link](https://{'x' * 100})\n") == []
    assert long_lines(f"{left}{long}\n- {long}\n") == [long, f"- {long}"]


def paths_of(nav: list[dict[str, Any]]) -> list[str]:
    found: list[str] = []
    for each in nav:
        for value in each.values():
            found += paths_of(value) if isinstance(value, list) else [value]
    return found


def test_the_navigation_has_every_page_once():
    nav = paths_of(tomllib.loads((DOCS.parent / "zensical.toml").read_text("utf-8"))["project"]["nav"])
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if path.parent.name != "decisions"]
    assert sorted(nav) == sorted([*pages, *PROJECT.values()])


def test_one_page_says_how_to_install_clew():
    pages = [DOCS.parent / "README.md", *DOCS.rglob("*.md")]
    saying = re.compile(r"pip install (?:-e )?'?(?:\.|\.\./clew|clew)(?:\[|'| |`|$)", re.MULTILINE)
    found = {page.relative_to(DOCS.parent).as_posix() for page in pages if saying.search(page.read_text("utf-8"))}
    # The README and the tutorial are read first, and alone.
    assert found - {"docs/install.md", "README.md", "docs/tutorial.md"} == set(), "link to install.md#extras instead"


def test_the_install_page_lists_every_extra():
    extras = tomllib.loads((DOCS.parent / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    text = (DOCS / "install.md").read_text("utf-8")
    assert {name for name in extras if f"`clew[{name}]`" not in text} == {"dev", "test", "examples"}


def test_the_commands_on_the_page_of_frameworks_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "frameworks.md").read_text("utf-8")
    namespace: dict[str, object] = {"__name__": "example"}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(compile(block, "frameworks.md", "exec", dont_inherit=True), namespace)
    commands = re.findall(r"^clew (.*?)(?:\s+#.*)?$", text, re.MULTILINE)
    assert len(commands) > 3
    for command in commands:
        done = CliRunner().invoke(app, shlex.split(command))
        assert done.exit_code == 0, f"clew {command}: {done.output}"
