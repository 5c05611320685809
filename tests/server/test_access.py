"""Callers get what their token allows, and nothing of other tenants."""

from __future__ import annotations

import asyncio
import json
import stat
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

import clew
from clew.server import Jwt, TokenFile, app
from tests.server.support import KNOWN, client

SECRET = "s" * 32


def claims(**more: Any) -> dict[str, Any]:
    return {"sub": "ana", "exp": datetime.now(UTC) + timedelta(minutes=5), **more}


def test_a_turn_answers_only_to_the_caller_who_began_it():
    async def main() -> None:
        memory = clew.connect("memory://")
        served = app(memory, authenticators=[KNOWN])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=served), base_url="http://localhost") as http:
            ana, bob = ({"Authorization": f"Bearer {name}"} for name in ("ana", "bob"))
            begun = await http.post("/api/threads/t/turns", json={"begin": 1}, headers=ana)
            path = f"/api/turns/{begun.json()['turn_id']}"
            assert (await http.post(f"{path}/checkpoints", json={"state": 2}, headers=bob)).status_code == 404
            assert (await http.delete(path, headers=bob)).status_code == 404
            assert (await http.delete(path, headers=ana)).status_code == 204

    asyncio.run(main())


def test_a_token_for_all_users_may_name_one():
    async def main() -> None:
        memory = clew.connect("memory://")
        async with client(memory, token="operator") as http:
            await http.post("/api/threads/t/checkpoints", json={"state": 1}, params={"user_id": "ana"})
            assert await memory.aget_state({"thread_id": "t", "user_id": "ana"}) == 1
            assert (await http.get("/api/threads/t")).json()["user_id"] == "ana"
            assert (await http.get("/api/threads/t", params={"user_id": "bob"})).status_code == 404

    asyncio.run(main())


def test_a_token_file_holds_hashes_and_notices_changes(tmp_path):
    path = tmp_path / "tokens.json"
    file = TokenFile(path)
    assert not file
    made = file.create("ci", user="ana", scope="read")
    assert made not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    caller = TokenFile(path).caller(made)
    assert caller is not None
    assert (caller.name, caller.user, caller.scope) == ("ci", "ana", "read")
    assert file.caller(made) == caller
    assert file.caller("clew_other") is None
    with pytest.raises(clew.ConfigError, match="already"):
        file.create("ci", user=None, scope="read")
    assert TokenFile(path).revoke("ci")
    assert file.caller(made) is None
    assert not file.revoke("ci")


@pytest.mark.parametrize("content", ["{", "[]", '{"tokens": [{"name": "x"}]}', '{"tokens": 5}'])
def test_a_damaged_token_file_lets_nobody_in_and_is_named(tmp_path, content):
    path = tmp_path / "tokens.json"
    path.write_text(content)
    with pytest.raises(clew.ConfigError, match=r"tokens\.json"):
        TokenFile(path).caller("clew_x")


def test_a_jwt_names_its_user_and_its_scope():
    known = Jwt(secret=SECRET, audience="clew", issuer="https://login.example")
    good = claims(aud="clew", iss="https://login.example", scope="openid clew:write")
    caller = known.caller(jwt.encode(good, SECRET, "HS256"))
    assert caller is not None
    assert (caller.user, caller.scope) == ("ana", "write")
    reader = known.caller(jwt.encode({**good, "scope": "openid"}, SECRET, "HS256"))
    assert reader is not None
    assert reader.scope == "read"
    for wrong in (
        jwt.encode({**good, "aud": "other"}, SECRET, "HS256"),
        jwt.encode({**good, "iss": "other"}, SECRET, "HS256"),
        jwt.encode({**good, "exp": datetime.now(UTC) - timedelta(hours=1)}, SECRET, "HS256"),
        jwt.encode({key: value for key, value in good.items() if key != "exp"}, SECRET, "HS256"),
        jwt.encode({**good, "sub": ""}, SECRET, "HS256"),
        jwt.encode(good, "t" * 32, "HS256"),
        jwt.encode(good, SECRET * 2, "HS512"),
        jwt.encode(good, "", "none"),
        "not.a.jwt",
    ):
        assert known.caller(wrong) is None


def test_a_jwt_is_checked_with_the_keys_of_a_jwks_file():
    one, other = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
    document = {
        "keys": [
            {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(one.public_key())), "kid": "r", "alg": "RS256"},
            {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(other.public_key())), "kid": "e", "alg": "ES256"},
        ]
    }
    known = Jwt(jwks=document)
    assert known.caller(jwt.encode(claims(), one, "RS256", headers={"kid": "r"})) is not None
    assert known.caller(jwt.encode(claims(), other, "ES256", headers={"kid": "e"})) is not None
    assert known.caller(jwt.encode(claims(), other, "ES256", headers={"kid": "r"})) is None
    assert known.caller(jwt.encode(claims(), SECRET, "HS256", headers={"kid": "r"})) is None


def test_weak_or_missing_keys_of_jwts_are_refused():
    with pytest.raises(clew.ConfigError, match="32 bytes"):
        Jwt(secret="short")
    with pytest.raises(clew.ConfigError, match="either"):
        Jwt()


def test_a_server_without_tokens_answers_to_this_machine_only():
    with pytest.raises(clew.ConfigError, match="localhost only"):
        app(clew.connect("memory://"), hosts=["example.com"])
    with pytest.raises(clew.ConfigError, match="localhost only"):
        app(clew.connect("memory://"), hosts=None)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "localhost.evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"host": "localhost:8700", "origin": "http://localhost:8700"}, 201),
        ({"origin": "https://app.example"}, 201),
        ({}, 201),
    ],
    ids=str,
)
def test_pages_of_other_sites_cannot_use_the_server(headers, status):
    async def main() -> None:
        async with client(clew.connect("memory://"), origins=["https://app.example"]) as http:
            response = await http.post("/api/threads/t/checkpoints", json={"state": 1}, headers=headers)
            assert response.status_code == status, response.text
            allowed = response.headers.get("access-control-allow-origin")
            assert allowed == ("https://app.example" if headers.get("origin") == "https://app.example" else None)
            assert "default-src 'none'" in response.headers["content-security-policy"]

    asyncio.run(main())
