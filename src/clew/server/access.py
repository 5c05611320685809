"""Access: who calls, as which user, and whether they may write."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import clew
from clew.server.problems import Problem

Scope = Literal["read", "write"]
PREFIX: Final = "clew_"
"""The beginning of every token, so that scanners for leaked secrets recognise one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An authenticated caller. `user` is the only user that it may act for, or `ANY_USER` for all."""

    name: str
    user: Any
    scope: Scope

    def acting_for(self, user_id: str | None) -> Any:
        """Return the user for a request that asks for `user_id`.

        Raises Problem if the caller may not act for that user.
        """
        if user_id is None:
            return self.user
        if self.user is clew.ANY_USER or user_id == self.user:
            return user_id
        raise Problem(403, "PermissionDenied", f"this token may act for one user only, and not for {user_id!r}")

    def must_write(self) -> None:
        """Raise Problem if the caller may only read."""
        if self.scope != "write":
            raise Problem(403, "ReadOnly", "this token may only read; make one with: clew token create NAME --write")

    def must_be_operator(self) -> None:
        """Raise Problem unless the caller may act for all users."""
        if self.user is not clew.ANY_USER:
            raise Problem(403, "PermissionDenied", "this needs a token for all users")


class Authenticator(Protocol):
    """Recognises callers by the secret in their Authorization header."""

    def caller(self, secret: str) -> Caller | None:
        """Return the caller with this secret, or `None`."""


def new_token() -> str:
    """Return a new random token: 256 bits."""
    return PREFIX + secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """Return the hash that is stored. A random token of 256 bits needs no salt and no slow hash."""
    return hashlib.sha256(token.encode()).hexdigest()


class TokenFile:
    """Named tokens in a JSON file that holds only their hashes. Changes to the file are noticed.

    The file is readable by its owner only. `user` is a user id, or `null` for all users.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._seen: tuple[int, int, int] | None = None
        self._callers: dict[str, Caller] = {}

    def caller(self, secret: str) -> Caller | None:
        self._refresh()
        return self._callers.get(token_hash(secret))

    def __bool__(self) -> bool:
        self._refresh()
        return bool(self._callers)

    def create(self, name: str, *, user: str | None, scope: Scope) -> str:
        """Add a token and return it. It can't be shown again. Raises ConfigError if the name exists."""
        entries = self._read()
        if any(entry["name"] == name for entry in entries):
            raise clew.ConfigError(f"there is a token called {name!r} already; revoke it first, or choose another name")
        token = new_token()
        self._write([*entries, {"name": name, "hash": token_hash(token), "user": user, "scope": scope}])
        return token

    def revoke(self, name: str) -> bool:
        """Remove a token. Returns whether there was one with this name."""
        entries = self._read()
        left = [entry for entry in entries if entry["name"] != name]
        if len(left) != len(entries):
            self._write(left)
        return len(left) != len(entries)

    def entries(self) -> list[dict[str, Any]]:
        """Return the tokens' names, users and scopes, without their hashes."""
        return [{key: entry[key] for key in ("name", "user", "scope")} for entry in self._read()]

    def _refresh(self) -> None:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            self._seen, self._callers = None, {}
            return
        seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if seen == self._seen:
            return
        self._callers = {
            entry["hash"]: Caller(
                name=entry["name"],
                user=clew.ANY_USER if entry["user"] is None else entry["user"],
                scope=entry["scope"],
            )
            for entry in self._read()
        }
        self._seen = seen

    def _read(self) -> list[dict[str, Any]]:
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise clew.ConfigError(f"the token file {self._path} can't be read: {error}") from error
        entries = content.get("tokens") if isinstance(content, dict) else None
        if not isinstance(entries, list) or not all(map(_is_entry, entries)):
            raise clew.ConfigError(f"{self._path} is not a token file; `clew token create` makes one")
        return entries

    def _write(self, entries: list[dict[str, Any]]) -> None:
        folder = self._path.parent
        folder.mkdir(parents=True, exist_ok=True)
        # mkstemp makes files with mode 0600. The rename makes the change atomic.
        handle, name = tempfile.mkstemp(dir=folder, prefix=self._path.name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"tokens": entries}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(key), str) for key in ("name", "hash"))
        and entry.get("scope") in ("read", "write")
        and (entry.get("user") is None or (isinstance(entry.get("user"), str) and entry["user"] != ""))
        and "user" in entry
    )


class SingleToken:
    """One token for all users, such as the one that `clew studio` makes for its own browser."""

    def __init__(self, token: str, caller: Caller) -> None:
        self._token = token.encode()
        self._caller = caller

    def caller(self, secret: str) -> Caller | None:
        return self._caller if hmac.compare_digest(secret.encode(), self._token) else None


class Jwt:
    """JSON Web Tokens. The claim `user_claim` names the user; the scope claim must contain `clew:write` to write.

    `key` is the shared secret of HS256 (32 bytes or more), or a JWKS document with public keys of RS256 and
    ES256. Tokens need an `exp` claim. `audience` and `issuer` are checked if they are given.
    """

    def __init__(
        self,
        *,
        secret: str | None = None,
        jwks: Mapping[str, Any] | None = None,
        user_claim: str = "sub",
        audience: str | None = None,
        issuer: str | None = None,
    ) -> None:
        try:
            import jwt
        except ModuleNotFoundError as error:
            raise clew.MissingExtraError("JWTs need PyJWT: pip install 'clew[server]'") from error
        if (secret is None) == (jwks is None):
            raise clew.ConfigError("Jwt takes either a secret (HS256) or a JWKS document (RS256, ES256)")
        if secret is not None and len(secret.encode()) < 32:
            raise clew.ConfigError("the secret of HS256 must have 32 bytes or more")
        self._user_claim = user_claim
        self._decode: Callable[[str], dict[str, Any]]
        options: dict[str, Any] = {
            "audience": audience,
            "issuer": issuer,
            "options": {"require": ["exp", user_claim], "verify_aud": audience is not None},
            "leeway": 30,
        }
        self._errors = (jwt.PyJWTError,)
        if secret is not None:
            self._decode = lambda token: jwt.decode(token, secret, algorithms=["HS256"], **options)
        else:
            keys = jwt.PyJWKSet.from_dict(dict(jwks or {}))

            def decode(token: str) -> dict[str, Any]:
                key_id = jwt.get_unverified_header(token).get("kid")
                found = [key for key in keys.keys if key.key_id == key_id] if key_id else keys.keys
                if len(found) != 1 or found[0].algorithm_name not in ("RS256", "ES256"):
                    raise jwt.InvalidKeyError("no key of the JWKS document fits")
                return jwt.decode(token, found[0], algorithms=[found[0].algorithm_name], **options)

            self._decode = decode

    def caller(self, secret: str) -> Caller | None:
        try:
            claims = self._decode(secret)
        except self._errors:
            return None
        user = claims.get(self._user_claim)
        if isinstance(user, bool) or not isinstance(user, str | int) or user == "":
            return None
        granted = claims.get("scope", "")
        scopes = granted.split() if isinstance(granted, str) else granted if isinstance(granted, list) else []
        return Caller(name=f"jwt:{user}", user=str(user), scope="write" if "clew:write" in scopes else "read")
