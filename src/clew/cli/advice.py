"""Translation of the Python API's advice for the command line: `to=` becomes `--to ID`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

_WORDS: Final = {
    "open it with encryption=clew.Encryption(keys=…), or with its keys in CLEW_ENCRYPTION_KEYS": (
        "put its keys into CLEW_ENCRYPTION_KEYS"
    ),
    "open the store with encryption=clew.Encryption(keys=…)": "put one into CLEW_ENCRYPTION_KEYS; `clew key` makes one",
    "add it to the keys in encryption=": "add it to CLEW_ENCRYPTION_KEYS",
    "give the right one in encryption=": "put the right one into CLEW_ENCRYPTION_KEYS",
    "list them with list_checkpoints": "list them with `clew history`",
    "list_threads and list_messages list everything": "`clew threads` and `clew messages` list everything",
    "rewind takes": "`clew rewind` takes",
}
"""Advice that names no parameter: the phrase of the API, and that of the command line."""
_QUOTED: Final = re.compile(r"((?<!\w)'[^']*'(?!\w)|\"[^\"]*\")")
"""Quoted ids and values, which stay unchanged. An apostrophe inside a word does not begin one."""


def translated(message: str, parameters: Iterable[Any]) -> str:
    """Return an error's message with the options of the command that failed, whose `parameters` are click's."""
    for python, shell in _WORDS.items():
        message = message.replace(python, shell)
    options = {
        each.name: f"{each.opts[0]} {each.metavar}" if each.metavar else each.opts[0]
        for each in parameters
        if each.param_type_name == "option" and each.name
    }
    if not options:
        return message
    # The name of an argument without a value: `max_tokens=5` quotes what the caller passed.
    names = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, options))})=(?=[\s),;.:]|$)")
    parts = _QUOTED.split(message)
    parts[::2] = [names.sub(lambda found: options[found[1]], part) for part in parts[::2]]
    return "".join(parts)
