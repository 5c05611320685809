"""The table of rules is complete: each rule has contract cases, an error, and a code for servers."""

from __future__ import annotations

import pytest

from clew.errors import StorageError
from clew.storage.rules import RULES, refusal
from clew.testing.build import checkpoint, commit, fork_of, row
from clew.testing.contract.cases import CASES


def test_every_rule_has_a_case_and_every_case_a_rule():
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert list(CASES) == names, "the cases are those of the table, in its order"
    assert all(CASES.values()), "a rule without a case is not checked anywhere"


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.error], ids=lambda rule: rule.name)
def test_a_refusal_that_a_server_names_is_the_error_of_the_rule(rule):
    made = commit(checkpoint=checkpoint("c"), values=row(0))
    if rule.name in ("exists", "source", "origin"):
        made = commit(fork=fork_of("s"))
    if rule.name == "merge":
        made = commit(merge=[row(0), row(1)])
    error = refusal(made, rule.name, "named", 2)
    assert type(error) is rule.error
    assert error.facts["thread_id"] in ("t", "s")


@pytest.mark.parametrize("code", ["receipt", "something newer"])
def test_a_refusal_that_is_no_rule_is_an_error_of_the_storage(code):
    assert type(refusal(commit(), code)) is StorageError
