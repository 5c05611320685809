"""Turns: hold a thread, work on its state, and save it, from another process."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, Response, delete, post
from litestar.params import JSONBody
from msgspec import Meta, Struct

import clew
from clew.server.bodies import NewCheckpoint
from clew.server.calls import Name, UserId, call_of, plain, saved
from clew.server.interchange import from_json, to_json
from clew.server.response_types import BegunTurn
from clew.server.turns import Turns


class NewTurn(Struct, forbid_unknown_fields=True):
    """A turn to begin: how long to wait for others, and how long it stays open without a request."""

    begin: Annotated[Any, Meta(description="The state of a thread that has none yet.")] = None
    wait: Annotated[float, Meta(ge=0, le=300, description="How many seconds to wait for another turn.")] = 30.0
    ttl: Annotated[float, Meta(ge=1, le=3600, description="After how many idle seconds the turn ends.")] = 60.0


@post("/threads/{thread_id:str}/turns", summary="Begin a turn", tags=["turns"])
async def begin_turn(
    request: Request[Any, Any, Any], thread_id: Name, data: JSONBody[NewTurn], user_id: UserId = None
) -> Response[BegunTurn]:
    """Hold the thread, and return its state. Other turns wait until this one ends. 423: another one holds it."""
    call = call_of(request)
    config = call.config(thread_id, user_id, write=True)
    begin = from_json(data.begin)
    turn_id, turn = await _turns(request).begin(call.caller, config, begin=begin, wait=data.wait, ttl=data.ttl)
    return plain({"turn_id": turn_id, "state": to_json(turn.state), "ttl": data.ttl}, status=201)


@post("/turns/{turn_id:str}/checkpoints", summary="Save in a turn", tags=["turns"])
async def save_turn(
    request: Request[Any, Any, Any], turn_id: Name, data: JSONBody[NewCheckpoint]
) -> Response[clew.CheckpointMetadata]:
    """Save a state and messages. The turn stays open, and its time begins again. A refused save changes nothing."""
    state, messages, metadata = from_json(data.state), from_json(data.messages), from_json(data.metadata)

    async def save(turn: clew.Turn) -> clew.Checkpoint:
        before, turn.state = turn.state, state
        try:
            more = {"node_name": data.node_name, "step": data.step, "metadata": metadata}
            return await turn.acheckpoint(messages=messages, **more)
        except clew.ClewError:
            turn.state = before
            raise

    return saved(await _turns(request).do(call_of(request).caller, turn_id, save))


@delete("/turns/{turn_id:str}", summary="End a turn", tags=["turns"], status_code=204)
async def end_turn(request: Request[Any, Any, Any], turn_id: Name) -> None:
    """End the turn. What was not saved is dropped."""
    await _turns(request).end(call_of(request).caller, turn_id)


def _turns(request: Request[Any, Any, Any]) -> Turns:
    turns: Turns = request.app.state.turns
    return turns


HANDLERS = [begin_turn, save_turn, end_turn]
