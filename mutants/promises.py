"""Mutations that put fixed faults back: for each promise that was broken once, the text of its fix
and a text without it.

PROMISES are numbered as in the list of faults that was found by attacking them. ELSEWHERE names the
parts of them that have no mutation here, and why.
"""

from __future__ import annotations

from mutants.mutation import Regression

PROMISES = {
    1: "No thread id or user id reaches the records that Clew keeps for itself.",
    2: "A damaged column hides nothing but its own record, and verify finds it.",
    3: "A deleted thread stays deleted, however many threads a process has met since.",
    4: "Ctrl-C and a missing OS thread leave nothing locked and nothing running.",
    5: "LangGraph: what a serializer of the user's wrote is read with it.",
    6: "Crafted bytes are damage, and take neither memory nor time.",
    7: "A lease belongs to a user's space: nobody blocks another user's thread.",
    8: "A copy is one consistent moment, or nothing.",
    9: "A process without a store's key is refused; a foreign record is named and stepped over.",
    10: "A save does not get slower when a thread outgrows the writer's memory.",
    11: "The error of a background save is raised for the user whose save failed.",
    12: "A release leaves no thread, no loop and nothing of the caller's context.",
    13: "Cancelling one caller while connections open harms no other.",
    14: "LangGraph: nothing comes back as another type without notice.",
    15: "LangGraph: another user's thread does not look empty.",
    16: "LangGraph: prune keeps what LangGraph's own savers keep, and refuses a bare string.",
    17: "LangGraph: stores of older versions are imported, or refused in one line.",
    18: "LangGraph: setup can be awaited, and metadata has lists for tuples.",
    19: "Wrong arguments raise ClewErrors.",
    20: "A forged record of an encrypted store shows nothing.",
    21: "verify raises no false alarms.",
    22: "No error contains a password.",
    23: "Files are private; a store that went away is noticed, and setup makes it again.",
    24: "No config opens a thread by accident: not without a user, and not by an id alone.",
    25: "Agentflow: a stale run is refused.",
    26: "Agentflow: an isolated graph leaves no container behind.",
    27: "llmfy: a state comes back as it was.",
    28: "Agentflow: the checkpointer keeps Agentflow's contract in detail.",
    29: "OpenAI Agents: compaction does not bypass a subclass.",
    30: "Many writers on one thread try each commit once.",
}

_AGENTFLOW = "its tests need the environments of `make test-agentflow`"
ELSEWHERE = {
    24: f"the anonymous user of Agentflow: {_AGENTFLOW}",
    25: _AGENTFLOW,
    26: f"graphs: {_AGENTFLOW}",
    28: _AGENTFLOW,
}
"""Promises, or parts of them, that are mutated by hand."""

_RESERVED_NAMES = "encryption/test_reserved_names.py"
_DAMAGE = "checkpointer/test_damage.py"
_LATE_WRITERS = "checkpointer/test_late_writers.py"
_INTERRUPTS = "checkpointer/test_interrupts.py"
_LEFTOVERS = "checkpointer/test_leftovers.py"
_VALUES = "adapters/langgraph/test_values.py"
_CRAFTED = "codec/test_crafted.py"
_COPIES = "checkpointer/test_copies.py"
_POINTS = "checkpointer/test_damaged_points.py"
_PAIRS = "replicated/test_damage.py"
_KEYS = "encryption/test_keys.py"
_SIZE = "checkpointer/test_size.py"
_BACKGROUND = "checkpointer/test_background.py"
_CLASSES = "adapters/langgraph/test_classes.py"
_OWNERS = "adapters/langgraph/test_owners.py"
_PRUNING = "adapters/langgraph/test_pruning.py"
_IMPORTING = "adapters/langgraph/test_importing.py"
_BAD_INPUT = "checkpointer/test_bad_input.py"
_TAMPERING = "encryption/test_tampering.py"
_FILES = "checkpointer/test_files.py"
_RUNS = "adapters/openai/test_runs.py"
_CONTENTION = "checkpointer/test_contention.py"

MUTATIONS = [
    Regression(
        1,
        "storage/encrypted/storage.py",
        "            sealed.append(Sealer(self.cipher, commit.thread_id).commit(commit, lineage))\n",
        '            own = commit.thread_id.startswith("clew:")\n'
        "            sealed.append(commit if own else Sealer(self.cipher, commit.thread_id).commit(commit, lineage))\n",
        _RESERVED_NAMES,
        "like_clews_own",
    ),
    Regression(
        1,
        "checkpointer/leases.py",
        "ask_turn(self._engine.storage, self._name, holder",
        'self._engine.storage.lease(f"clew:{self._name.value}", None, holder',
        _RESERVED_NAMES,
        "no_lease_on_a_thread",
    ),
    Regression(
        1,
        "model/config.py",
        "    if user.startswith(RESERVED):\n",
        "    if False:\n",
        _RESERVED_NAMES,
        "reserved_user_id",
    ),
    Regression(
        1,
        "model/config.py",
        "    if thread_id.startswith(RESERVED) and user is not ANY_USER:\n",
        "    if False:\n",
        "checkpointer/test_owners.py",
        "adapters_own_thread and memory",
    ),
    Regression(
        1,
        "storage/redis/keys.py",
        'return self._start + b"own:" + name.value.encode() + b"}"\n',
        'return self.thread(f"clew:{name.value}")\n',
        "storage/test_redis_keys.py",
        "clews_own_records",
    ),
    Regression(
        2,
        "storage/columns.py",
        "    return kind not in (_TIME, _SOME_TIME) or value is None or moment_or_none(value) is not None\n",
        "    return True\n",
        _DAMAGE,
        "whose_time_is_damaged",
    ),
    Regression(
        2,
        "storage/columns.py",
        "            if not 0 <= row[at] <= most:\n",
        "            if False:\n",
        "checkpointer/test_damaged_numbers.py",
        "in_sqlite",
    ),
    Regression(
        2,
        "storage/columns.py",
        " or count != len(digests) // DIGEST_SIZE or not count:",
        ":",
        "storage/test_columns.py",
        "count_differs",
    ),
    Regression(
        2,
        "storage/sqlite/connections.py",
        "            if not is_undecodable(error):\n",
        "            if True:\n",
        _DAMAGE,
        "not_utf8",
    ),
    Regression(
        2,
        "checkpointer/attachments.py",
        "            except BAD_RECORD as error:\n",
        "            except NotImplementedError as error:\n",
        _DAMAGE,
        "damaged_attachment",
    ),
    Regression(
        2,
        "checkpointer/verification.py",
        "                found.attachments(thread_id, await",
        "                found.attachments(thread_id, () and await",
        _DAMAGE,
        "damaged_attachment",
    ),
    Regression(
        2,
        "checkpointer/verification.py",
        "        except BAD_RECORD as error:\n",
        "        except NotImplementedError as error:\n",
        _DAMAGE,
        "damaged_metadata_is_listed",
    ),
    Regression(
        2,
        "checkpointer/verification.py",
        "points_of(thread_id, await engine.values(position))",
        "await engine.values(position)",
        _POINTS,
        "in_a_file",
    ),
    Regression(
        2,
        "storage/sqlite/applier.py",
        "        check_points(self.connection, commit, decided)\n",
        "",
        _POINTS,
        "in_a_file",
    ),
    Regression(
        3, "checkpointer/basis.py", "            self._runs = tuple(runs)\n", "", _LATE_WRITERS, "met_many_others"
    ),
    Regression(
        3,
        "checkpointer/basis.py",
        "_Run({**older.content(), **newer.content()})",
        "_Run({**newer.content(), **older.content()})",
        _LATE_WRITERS,
        "never_mistaken",
    ),
    Regression(
        3,
        "checkpointer/engine.py",
        "        if basis is None or not self.known.is_same(key, basis):\n"
        "            raise deleted(thread_id)\n"
        "        self.known.put(key, basis)\n",
        "        if basis is not None:\n            self.known.put(key, basis)\n",
        _LATE_WRITERS,
        "met_many_others",
    ),
    Regression(
        4,
        "storage/sqlite/writer.py",
        "        with self._turn:\n"
        "            if self._stopped or self._connections.forking:\n"
        "                return False\n"
        "            try:\n"
        "                self._write([job])\n"
        "            except BaseException:\n"
        "                # Interrupted. Other processes must not wait for this transaction to end.\n"
        "                self._reset()\n"
        "                raise\n"
        "            return True\n",
        "        self._turn.acquire()\n"
        "        if self._stopped or self._connections.forking:\n"
        "            self._turn.release()\n"
        "            return False\n"
        "        try:\n"
        "            self._write([job])\n"
        "        except BaseException:\n"
        "            self._reset()\n"
        "            raise\n"
        "        finally:\n"
        "            self._turn.release()\n"
        "        return True\n",
        _INTERRUPTS,
        "interrupted_one and sqlite",
        may_hang=True,
    ),
    Regression(
        4,
        "storage/sqlite/writer.py",
        "            except BaseException:\n"
        "                # Interrupted. Other processes must not wait for this transaction to end.\n"
        "                self._reset()\n"
        "                raise\n",
        "            finally:\n                pass\n",
        "storage/test_sqlite.py",
        "does_not_lock_the_file",
    ),
    Regression(
        4,
        "checkpointer/background.py",
        "        save = self._entering\n        if save is None:\n            return\n",
        "        if (save := self._entering) is None or save:\n            return\n",
        _INTERRUPTS,
        "accepting_a_save",
        may_hang=True,
    ),
    Regression(
        4,
        "checkpointer/background.py",
        "        save = self._entering\n        if save is None:\n            return\n",
        "        if (save := self._entering) is None or save:\n            return\n",
        _INTERRUPTS,
        "gets_no_thread",
        may_hang=True,
    ),
    Regression(
        4,
        "checkpointer/runner.py",
        "            # Ctrl-C must not leave the work running unnoticed.\n            call.give_up()\n",
        "",
        _LEFTOVERS,
        "does_not_run_on",
    ),
    Regression(
        4,
        "checkpointer/runner.py",
        "            if adopted(self):\n                self._run()\n",
        "            self._run()\n",
        _INTERRUPTS,
        "first_call",
    ),
    Regression(
        4,
        "checkpointer/write_queue.py",
        "            if leader is not writer and not leader.is_present:\n",
        "            if False:\n",
        "checkpointer/test_write_queue.py",
        "interrupted_before_it_left",
        may_hang=True,
    ),
    Regression(
        5,
        "adapters/langgraph/values.py",
        '    return "pickle" if serde.pickle_fallback else None\n',
        "    return None\n",
        _VALUES,
        "serializer_of_the_user_s_wrote",
    ),
    Regression(
        5,
        "adapters/langgraph/values.py",
        "    except NotImplementedError as error:\n        raise unwritten(value.kind) from error\n",
        "    finally:\n        pass\n",
        _VALUES,
        "another_serializer_wrote",
    ),
    Regression(
        6,
        "codec/frame.py",
        "        if size is None or size > most:\n",
        "        if size is None:\n",
        _CRAFTED,
        "unpacks_to_more",
    ),
    Regression(
        6,
        "codec/frame.py",
        "    if len(unpacked) != size or not decompressor.eof or decompressor.unused_data:\n",
        "    if len(unpacked) != size:\n",
        _CRAFTED,
        "unpacks_to_more",
    ),
    Regression(6, "codec/decode.py", "        self._take(sum(map(len, parts)))\n", "", _CRAFTED, "counts_each_time"),
    Regression(
        6,
        "codec/nodes.py",
        "        if first < 0 or end > LARGEST:\n",
        "        if False:\n",
        _CRAFTED,
        "beyond_the_largest",
    ),
    Regression(
        6,
        "codec/rows.py",
        "        if len(lengths) != count or start + sum(lengths) != len(content):\n",
        "        if start + sum(lengths) != len(content):\n",
        _CRAFTED,
        "other_values_than_it_says",
    ),
    Regression(
        6,
        "codec/rows.py",
        "        if size > _DIRECTORY + _DIRECTORY_ENTRY * row.count:\n",
        "        if False:\n",
        _CRAFTED,
        "directory_is_not_read",
    ),
    Regression(
        6,
        "codec/packer.py",
        "    except RecursionError:\n"
        "        raise CorruptRecordError(\n"
        '            "a stored value nests too deeply to be read; if it was saved like that, raise sys.setrecursionlimit"\n'
        "        ) from None\n",
        "",
        _CRAFTED,
        "nests_deeper",
    ),
    Regression(
        6,
        "codec/packer.py",
        "LookupError, TypeError, ArithmeticError) as error:\n        raise CorruptRecordError",
        "LookupError, TypeError) as error:\n        raise CorruptRecordError",
        _CRAFTED,
        "out_of_range",
    ),
    Regression(
        6,
        "storage/sqlite/queries.py",
        "(type(parent) is int and parent < at)):",
        "type(parent) is int):",
        _DAMAGE,
        "in_a_circle and log_no-",
        may_hang=True,
    ),
    Regression(
        6,
        "checkpointer/records.py",
        "    except (TypeError, ValueError, LookupError, AttributeError) as error:\n"
        '        raise CorruptRecordError(f"the stored data is not a message',
        '    except NotImplementedError as error:\n        raise CorruptRecordError(f"the stored data is not a message',
        _DAMAGE,
        "not_a_message",
    ),
    Regression(
        6,
        "checkpointer/records.py",
        "        if type(value) not in kinds and not isinstance(value, kinds):\n            raise Corrupt",
        "        if False:\n            raise Corrupt",
        _DAMAGE,
        "not_a_message",
    ),
    Regression(
        6,
        "checkpointer/records.py",
        "    if type(tags) is not list or not all(isinstance(tag, str) for tag in tags):\n",
        "    if False:\n",
        _DAMAGE,
        "not_a_description",
    ),
    Regression(
        7,
        "storage/holders.py",
        "    return space_name(None if user is ANY_USER else user)\n",
        '    return space_name(user if isinstance(user, str) and user.startswith("\\0") else None)\n',
        "checkpointer/test_lease_spaces.py",
        "keeps_nobody_else or nobody_waits",
    ),
    Regression(
        8,
        "checkpointer/copies.py",
        "            except (StaleBasisError, ThreadDeletedError):\n",
        "            except ThreadDeletedError:\n",
        _COPIES,
        "deletion_of_runs and memory",
    ),
    Regression(
        8,
        "checkpointer/drafts.py",
        "            with suppress(ClewError):\n                await self._remove()\n        await self._give_back()",
        "            pass\n        await self._give_back()",
        _COPIES,
        "cancelled_leaves_nothing and memory",
    ),
    Regression(
        8,
        "checkpointer/copies.py",
        "        if now is None or now.incarnation != content.basis.incarnation:\n",
        "        if False:\n",
        _COPIES,
        "source_that_is_deleted and memory",
    ),
    Regression(
        8,
        "storage/postgres/storage.py",
        '            connection.transaction(isolation="repeatable_read", readonly=True),\n'
        "        ):\n"
        "            rows =",
        '            connection.transaction(isolation="read_committed", readonly=True),\n'
        "        ):\n"
        "            rows =",
        "storage/test_contract_postgres.py",
        "TestPgStorage and of_one_moment",
    ),
    Regression(8, "codec/rows.py", "if not intact(frame):", "if False:", _PAIRS, "keeps_the_good_copy and body"),
    Regression(
        8, "codec/rows.py", "if at < 0 or end > held[at][1]:", "if False:", _PAIRS, "keeps_the_good_copy and row"
    ),
    Regression(
        8,
        "storage/replicated/resync.py",
        "            except CorruptRecordError as error:\n",
        "            except NotImplementedError as error:\n",
        _PAIRS,
        "keeps_the_good_copy and time",
    ),
    Regression(
        9,
        "storage/encrypted/keyed.py",
        "        _check(_read(await self.inner.own(Own.KEYS)), self.keys)\n        self._admitted = True\n",
        "        self._admitted = True\n",
        _KEYS,
        "refused_at_setup",
    ),
    Regression(
        9, "storage/encrypted/keyed.py", "            _check(known, self.keys)\n", "", _KEYS, "when_it_first_writes"
    ),
    Regression(
        9,
        "storage/encrypted/keyed.py",
        "        if keys.checks.get(name, check) != check:\n",
        "        if False:\n",
        _KEYS,
        "refused_at_setup",
    ),
    Regression(
        9,
        "errors.py",
        "UNREADABLE: Final = (CorruptRecordError, EncryptionError)\n",
        "UNREADABLE: Final = (CorruptRecordError,)\n",
        _KEYS,
        "named_and_the_others_are_maintained",
    ),
    Regression(
        10,
        "codec/index.py",
        "        if room >= 0:\n",
        "        if False:\n",
        _SIZE,
        "outgrows_the_writers_memory",
    ),
    Regression(
        10,
        "codec/index.py",
        "            if state < self._share < state + _ENTRY_BYTES * large.known:\n",
        "            if False:\n",
        _SIZE,
        "long_threads_that_take_turns",
    ),
    Regression(
        10,
        "checkpointer/engine.py",
        "        return max(0, basis.next_value - self.indexes.most_values)\n",
        "        return 0\n",
        _SIZE,
        "only_the_newest_digests",
    ),
    Regression(
        11,
        "checkpointer/background.py",
        "            if thread_id in (None, of) and by == user:\n",
        "            if thread_id in (None, of) and (by == user or user is ANY_USER):\n",
        _BACKGROUND,
        "not_to_an_operator",
    ),
    Regression(
        11,
        "checkpointer/background.py",
        " if not isinstance(error, PermissionDeniedError)), None)",
        "), None)",
        _BACKGROUND,
        "logged_by_a_release and memory",
    ),
    Regression(
        12,
        "checkpointer/base.py",
        "        # Not after an interrupt: background saves are still under way, and the next release waits for them.\n"
        "        await runner.aclose()\n",
        "",
        _LEFTOVERS,
        "async_release and redis",
    ),
    Regression(
        12,
        "storage/loops.py",
        "loop.create_task(self._open(home), context=contextvars.Context())",
        "loop.create_task(self._open(home))",
        _LEFTOVERS,
        "sync_calls_keep_nothing",
        may_hang=True,
    ),
    Regression(
        12,
        "storage/fresh_context.py",
        "    context = Context()\n",
        '    context = __import__("contextvars").copy_context()\n',
        _LEFTOVERS,
        "awaited_apart",
    ),
    Regression(
        13,
        "storage/loops.py",
        "await asyncio.shield(home.opening)",
        "await home.opening",
        "storage/test_loops.py",
        "cancelled_caller or gives_up_waiting",
    ),
    Regression(
        14,
        "adapters/langgraph/serializer.py",
        "        raise UnsupportedTypeError(_why_not(cls), type=cls)\n",
        '        return Record(f"{cls.__module__}:{cls.__qualname__}", dict(vars(obj)))\n',
        _VALUES,
        "not_named_or_allowed",
    ),
    Regression(
        14,
        "adapters/langgraph/saver.py",
        "        saver.serde.classes.learn(classes_of(graph))\n",
        "        pass\n",
        _CLASSES,
        "schema_names",
    ),
    Regression(
        14,
        "adapters/langgraph/graphs.py",
        "        named += [each for each in in_code if isinstance(each, (type, types.FunctionType, _TaskFunction, Pregel))]\n",
        "",
        _CLASSES,
        "code_of_nodes",
    ),
    Regression(
        14,
        "adapters/langgraph/graphs.py",
        "            named.append(cell.cell_contents)\n",
        "            continue\n",
        _CLASSES,
        "response_format",
    ),
    Regression(
        15,
        "adapters/langgraph/loader.py",
        "        if found is None:\n            await self._addresses.check_owner(address)\n",
        "        if found is None:\n",
        _OWNERS,
        "does_not_look_empty",
    ),
    Regression(
        15,
        "adapters/langgraph/loader.py",
        "        if is_empty:\n            await self._addresses.check_owner(address)\n",
        "",
        _OWNERS,
        "does_not_look_empty",
    ),
    Regression(
        15,
        "adapters/langgraph/deltas.py",
        "            await self._addresses.check_owner(address)\n",
        "            pass\n",
        _OWNERS,
        "does_not_look_empty",
    ),
    Regression(
        15,
        "adapters/langgraph/forks.py",
        "        await self._addresses.check_owner(address)\n",
        "",
        _OWNERS,
        "does_not_look_empty",
    ),
    Regression(
        16,
        "adapters/langgraph/removal.py",
        "    if isinstance(ids, (str, bytes)):\n",
        "    if False:\n",
        _PRUNING,
        "taken_for_its_letters",
    ),
    Regression(
        16,
        "adapters/langgraph/removal.py",
        "keep=needed, remove=removed)",
        "keep=needed)",
        _PRUNING,
        "calls_of_subgraphs",
    ),
    Regression(
        16,
        "adapters/langgraph/removal.py",
        "        await self._mark_orphans(address)\n",
        "",
        _PRUNING,
        "has_no_parent",
    ),
    Regression(
        16,
        "adapters/langgraph/removal.py",
        "RetentionPolicy(max_history=1)",
        "RetentionPolicy(max_history=2)",
        _PRUNING,
        "keeps_its_latest",
    ),
    Regression(
        17,
        "adapters/langgraph/layout.py",
        "stored(value, serde, name) if name == SENDS else value for",
        "value for",
        _IMPORTING,
        "older_versions",
    ),
    Regression(
        17,
        "adapters/langgraph/serializer.py",
        '{"langgraph.constants": "langgraph.types"}',
        "{}",
        _VALUES,
        "has_moved_its_class",
    ),
    Regression(
        17,
        "adapters/langgraph/importing.py",
        'any(row[1] == "task_path" for row in opened.execute("PRAGMA table_info(writes)"))',
        "True",
        _IMPORTING,
        "file_that_was_never_migrated",
    ),
    Regression(
        17,
        "adapters/langgraph/importing.py",
        "    except CorruptRecordError as error:\n        kind =",
        "    except NotImplementedError as error:\n        kind =",
        _IMPORTING,
        "another_serializer",
    ),
    Regression(
        17,
        "adapters/langgraph/importing.py",
        "            if not _has_paths(opened):\n",
        "            if False:\n",
        _IMPORTING,
        "postgres_that_was_never_migrated",
    ),
    Regression(
        18,
        "adapters/langgraph/saver.py",
        "            return _Deferred(self.asetup)\n",
        "            self.checkpointer.setup()\n            return None  # type: ignore[return-value]\n",
        "adapters/langgraph/test_saver.py",
        "setup_may_be_awaited",
    ),
    Regression(
        18,
        "adapters/langgraph/values.py",
        "        name: listed(value) if",
        "        name: value if",
        _VALUES,
        "tuples_in_metadata",
    ),
    Regression(
        19,
        "model/config.py",
        "    if value.bit_length() > _ID_BITS:\n",
        "    if False:\n",
        _BAD_INPUT,
        "thousands_of_digits",
    ),
    Regression(
        19,
        "checkpointer/state.py",
        "        if known is not None and not isinstance(known, Checkpoint):\n",
        "        if False:\n",
        _BAD_INPUT,
        "wrong_kind",
    ),
    Regression(
        19,
        "checkpointer/arguments.py",
        "    if not isinstance(names, Iterable):\n",
        "    if False:\n",
        _BAD_INPUT,
        "wrong_kind",
    ),
    Regression(
        19,
        "checkpointer/arguments.py",
        "    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):\n",
        "    if isinstance(ids, (str, bytes)):\n",
        _BAD_INPUT,
        "wrong_kind",
    ),
    Regression(
        19,
        "checkpointer/attachments.py",
        "            if not isinstance(flag, bool):\n",
        "            if False:\n",
        _BAD_INPUT,
        "wrong_kind",
    ),
    Regression(
        19,
        "checkpointer/cleanup.py",
        '    except (TypeError, ValueError) as error:\n        raise ConfigError(\n            f"{parameter} must be',
        '    except NotImplementedError as error:\n        raise ConfigError(\n            f"{parameter} must be',
        _DAMAGE,
        "named_in_pairs",
    ),
    Regression(
        19,
        "checkpointer/operations.py",
        "        if rebuild is not None and not callable(rebuild):\n",
        "        if False:\n",
        _BAD_INPUT,
        "wrong_kind",
    ),
    Regression(
        19,
        "checkpointer/leases.py",
        "        if now > _LAST_MOMENT:\n",
        "        if False:\n",
        _BAD_INPUT,
        "last_day_of_the_calendar",
    ),
    Regression(19, "factory/urls.py", '    if "\\0" in path:\n', "    if False:\n", _BAD_INPUT, "cannot_be_read"),
    Regression(
        19,
        "factory/options.py",
        "    except ValueError:\n        # Not as the cause: its message may have the password.\n",
        "    except NotImplementedError:\n        # Not as the cause: its message may have the password.\n",
        _BAD_INPUT,
        "cannot_be_read",
    ),
    Regression(
        20,
        "storage/encrypted/sealer.py",
        '        if not stored and all(each is None or each == "" for each in absorbed):\n',
        "        if not stored:\n",
        _TAMPERING,
        "forged_node_or_step",
    ),
    Regression(
        20,
        "storage/encrypted/sealer.py",
        "        if self._stays(record.data, record.text):\n"
        "            return record\n"
        '        content = self._content(record.data, (about("message"',
        "        if self._stays(record.data):\n"
        "            return record\n"
        '        content = self._content(record.data, (about("message"',
        _TAMPERING,
        "forged_search_text",
    ),
    Regression(
        21,
        "checkpointer/records.py",
        "    if type(metadata) is not dict:\n",
        "    if DAMAGED in metadata:\n"
        "        raise CorruptRecordError(metadata[DAMAGED])\n"
        "    if type(metadata) is not dict:\n",
        _DAMAGE,
        "named_like_a_note and memory",
    ),
    Regression(
        21,
        "checkpointer/verification.py",
        "rows.within(record.covers)",
        "rows.within(record.covers[:1])",
        _DAMAGE,
        "long_text_that_was_edited and memory",
    ),
    Regression(22, "factory/urls.py", '        if "=" in url:\n', "        if False:\n", _BAD_INPUT, "no_password"),
    Regression(22, "factory/urls.py", "rest.rpartition('@')[2]", "rest", _BAD_INPUT, "no_password"),
    Regression(
        22,
        "storage/redis/settings.py",
        "        _ = parts.port\n"
        "    except ValueError:\n"
        "        # Not as the cause: its message may have part of the password.\n"
        "        raise _unreadable() from None\n",
        "        _ = parts.port\n    except ValueError as error:\n        raise _unreadable() from error\n",
        _BAD_INPUT,
        "no_password",
    ),
    Regression(
        22,
        "storage/postgres/settings.py",
        '        raise ConfigError(\n            "a port in the DSN is not',
        '        raise ConfigError(\n            f"{port} in the DSN is not',
        _BAD_INPUT,
        "no_password",
    ),
    Regression(
        23, "storage/sqlite/connections.py", "os.O_EXCL, 0o600))", "os.O_EXCL, 0o644))", _FILES, "for_their_user_only"
    ),
    Regression(
        23,
        "storage/sqlite/connections.py",
        "        if self._identity is not None and self._identity_now() != self._identity:\n",
        "        if False:\n",
        _FILES,
        "goes_away",
    ),
    Regression(
        23,
        "storage/postgres/storage.py",
        "        # The schema may have been dropped since it was opened.\n"
        "        async with home.connections.connection() as connection:\n"
        "            await self._schema.prepare(connection)\n",
        "",
        "storage/test_postgres_setup.py",
        "was_dropped_is_made_again",
    ),
    Regression(
        24,
        "adapters/langgraph/addresses.py",
        'isinstance(thread_id, OwnedId) and given.get("checkpoint_ns"):',
        "isinstance(thread_id, OwnedId):",
        _OWNERS,
        "no_rights",
    ),
    Regression(
        26,
        "adapters/injection.py",
        '    variable = getattr(ContainerContext, "_context_var", None)\n',
        '    variable = getattr(ContainerContext, "_no_var", None)\n',
        "adapters/injection/test_injection.py",
        "overlap_leave_nothing",
    ),
    Regression(
        27,
        "adapters/llmfy/checkpointer.py",
        "    requires_serialization = False\n",
        "    requires_serialization = True\n",
        "adapters/llmfy/test_states.py",
        "comes_back_as_it_was",
    ),
    Regression(
        29,
        "adapters/openai_agents/session.py",
        "        if self._is_overridden():\n            return None\n",
        "",
        _RUNS,
        "subclass",
    ),
    Regression(
        29,
        "adapters/openai_agents/session.py",
        "        if self._is_overridden():\n            return False\n",
        "",
        _RUNS,
        "overrides and memory",
    ),
    Regression(
        30,
        "checkpointer/saver.py",
        "in_turn(key, item, write)",
        "in_turn(object(), item, write)",
        _CONTENTION,
        "try_each_commit_once and sqlite",
    ),
    Regression(
        30,
        "checkpointer/saver.py",
        "        writer.take_along(MAX_SAVES - 1)\n",
        "",
        _CONTENTION,
        "save_one_thread and sqlite",
    ),
]
