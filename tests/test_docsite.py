"""The script that builds the documentation site notices what is wrong."""

from __future__ import annotations

from pathlib import Path

from docsite.build import broken, complaints, empty
from docsite.pages import PROJECT, moved, stage

ROOT = Path(__file__).parent.parent

OUTPUT = """Build started
mkdocstrings: clew.NoSuchName could not be found
\x1b[33mWarning:\x1b[0m page does not exist
Build finished in 1.2s
"""


def test_progress_is_no_complaint():
    assert complaints("Build started\nNo issues found\nBuild finished in 12.4s\n") == []


def test_a_name_that_does_not_exist_and_a_warning_are_complaints():
    assert complaints(OUTPUT) == ["mkdocstrings: clew.NoSuchName could not be found", "Warning: page does not exist"]


def test_a_link_to_a_file_that_is_not_there_is_broken(tmp_path):
    (tmp_path / "faq").mkdir()
    (tmp_path / "faq" / "index.html").write_text(
        '<a href="../#top"><img src="../one.svg"><a href="https://a.example/">'
    )
    (tmp_path / "index.html").write_text('<a href="faq/#why"><a href="#here"><img src="one.svg"><a href="mailto:a@b">')
    assert broken(tmp_path) == ["one.svg does not exist, but faq/index.html and 1 other places refer to it"]
    (tmp_path / "one.svg").write_text("<svg/>")
    assert broken(tmp_path) == []


def test_links_to_pages_of_the_repository_lead_to_their_places_on_the_site():
    said = "[a](../../CHANGELOG.md#unreleased) [b](../errors.md) [c](../../LICENSE) [d](https://a.example/) [e](#here)"
    told = "[a](../project/changelog.md#unreleased) [b](../errors.md) c [d](https://a.example/) [e](#here)"
    assert moved(said, "docs/how-to/upgrading.md", ROOT) == told
    assert moved("[a](docs/errors.md)", "CONTRIBUTING.md", ROOT) == "[a](../errors.md)"
    assert moved("![a](docs/images/save.svg)", "ARCHITECTURE.md", ROOT) == "![a](../images/save.svg)"
    assert moved("[a](../examples/chat)", "docs/quickstart.md", ROOT) == "[a](project/chat-example.md)"


def test_a_link_to_a_missing_file_and_code_are_left_as_they_are():
    said = "[a](gone.md)\n```python\nx[1](../LICENSE)\n```\n"
    assert moved(said, "docs/errors.md", ROOT) == said
    assert moved("```python no-run\nx\n```\n", "docs/errors.md", ROOT) == "```python\nx\n```\n"


def test_every_page_is_staged(tmp_path):
    stage(ROOT, tmp_path / "pages")
    staged = {path.relative_to(tmp_path / "pages").as_posix() for path in (tmp_path / "pages").rglob("*.md")}
    assert {"index.md", "how-to/testing.md", *PROJECT.values()} <= staged
    assert (tmp_path / "pages" / "images" / "demo.svg").is_file()


def test_an_entry_of_the_reference_without_a_text_is_found(tmp_path):
    entry = '<h3 id="clew.{0}" class="doc doc-heading">{0}</h3><div class="doc doc-contents first">{1}</div>'
    (tmp_path / "reference" / "data").mkdir(parents=True)
    page = tmp_path / "reference" / "data" / "index.html"
    page.write_text(entry.format("Diff", "<p>All differences.</p>") + entry.format("Record", "\n  "))
    assert empty(tmp_path) == ["reference/data/index.html: the entry of clew.Record has no text"]
