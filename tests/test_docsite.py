"""The script that builds the documentation site notices what is wrong."""

from __future__ import annotations

from docsite.build import broken, complaints

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
