"""`clew serve` and `clew studio` say why they can't listen, in one line, and what they serve."""

from __future__ import annotations

import socket

import pytest

import clew
from clew.server import TokenFile
from tests.cli.test_bad_input import complaint
from tests.server.support import running


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def busy():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield str(taken.getsockname()[1])


@pytest.mark.parametrize("command", [["serve"], ["studio", "--no-browser", "--demo"]], ids=lambda command: command[0])
def test_a_port_in_use_is_one_line(command, busy, here, run):
    said = complaint(run(*command, "--port", busy))
    assert said == f"clew: port {busy} is in use; choose another with --port"
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("192.0.2.1", "192.0.2.1 is not an address of this machine; choose another with --host"),
        ("host.invalid", "there is no address 'host.invalid'; choose another with --host"),
    ],
)
def test_an_address_that_is_not_here_is_one_line(host, said, here, run):
    TokenFile(here / "clew-tokens.json").create("ci", user=None, scope="read")
    assert complaint(run("serve", "--host", host, "--port", "0")) == f"clew: {said}"


def test_a_port_that_only_root_may_use_is_one_line(here, run, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket, "create_server", refused)
    assert complaint(run("serve", "--port", "80")) == (
        "clew: port 80 is not allowed for this user; choose another with --port"
    )


def test_a_certificate_that_is_none_is_one_line(here, run):
    (here / "cert.pem").write_text("my diary")
    said = complaint(run("serve", "--port", "0", "--ssl-certfile", "cert.pem", "--ssl-keyfile", "cert.pem"))
    assert said.startswith("clew: the TLS certificate or its key can't be used: ")


@pytest.mark.parametrize("option", ["--ssl-certfile", "--ssl-keyfile", "--jwt-secret-file"])
def test_a_file_that_is_not_there_is_wrong_usage(option, here, run):
    done = run("serve", "--port", "0", option, "none")
    assert done.exit_code == 2
    assert "does not exist" in done.stderr


@pytest.mark.parametrize("exists", [True, False])
def test_the_first_line_says_if_the_store_is_new(exists, here):
    if exists:
        with clew.connect("sqlite:///agent.db") as memory:
            memory.put_state("t", 1)
    lines: list[str] = []
    with running(here, "sqlite:///agent.db", "serve", "--port", "0", heard=lines):
        remark = "" if exists else "new: it does not exist yet; "
        assert lines[0] == f"clew: serving sqlite:///agent.db ({remark}without tokens, for this machine only)\n"
