"""The chat's HTTP API and page. Run it with `uvicorn examples.chat.app:app`; $CLEW_URL names the store."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import Cookie, Depends, FastAPI, Header, HTTPException, Request, Response
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from pydantic import BaseModel, Field

import clew
from examples.chat.model import answer


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with clew.connect() as memory:  # $CLEW_URL, or else sqlite:///clew.db
        app.state.memory = memory
        yield


app = FastAPI(title="Chat on Clew", lifespan=lifespan)


# Who calls, and which thread


def the_memory(request: Request) -> clew.BaseCheckpointer:
    memory: clew.BaseCheckpointer = request.app.state.memory
    return memory


def the_user(user: Annotated[str | None, Cookie()] = None) -> str:
    """The user's name from a cookie, for the sake of the example. Use your own login here."""
    if not user:
        raise HTTPException(401, "log in first: POST /login")
    return user


Memory = Annotated[clew.BaseCheckpointer, Depends(the_memory)]
User = Annotated[str, Depends(the_user)]


def config_of(thread_id: str, user: User) -> clew.Config:
    """The config of every call: Clew shows a thread to its owner only."""
    return {"thread_id": thread_id, "user_id": user}


Thread = Annotated[clew.Config, Depends(config_of)]


class Login(BaseModel):
    name: str = Field(min_length=1, max_length=100)


class NewThread(BaseModel):
    title: str = Field(default="New chat", max_length=200)


class Question(BaseModel):
    text: str = Field(min_length=1)


@app.post("/login", status_code=204)
def login(who: Login, response: Response) -> None:
    response.set_cookie("user", who.name, httponly=True, samesite="lax")


# Threads


@app.post("/threads", status_code=201)
async def create_thread(new: NewThread, user: User, memory: Memory) -> dict[str, str]:
    thread_id = uuid.uuid4().hex
    await memory.aput_thread(config_of(thread_id, user), {"thread_name": new.title})
    return {"id": thread_id, "title": new.title}


@app.get("/threads")
async def list_threads(user: User, memory: Memory, search: str | None = None) -> list[dict[str, Any]]:
    """The user's threads, the most recently active first."""
    threads = await memory.alist_threads({"user_id": user}, search=search, limit=100)
    return [{"id": each.thread_id, "title": each.thread_name} for each in threads]


@app.get("/threads/{thread_id}")
async def read_thread(config: Thread, memory: Memory) -> dict[str, Any]:
    thread = await memory.aget_thread(config)
    if thread is None:
        raise HTTPException(404, "no such thread")
    state = await memory.aget_state(config) or {"messages": []}
    return {"id": thread.thread_id, "title": thread.thread_name, "messages": state["messages"]}


@app.delete("/threads/{thread_id}", status_code=204)
async def delete_thread(config: Thread, memory: Memory) -> None:
    await memory.adelete_thread(config)


# The conversation


@app.post("/threads/{thread_id}/messages", status_code=201)
async def ask(question: Question, config: Thread, memory: Memory) -> dict[str, str]:
    """Ask a question. Questions to one thread take turns, whichever process they reach."""
    if await memory.aget_thread(config) is None:
        raise HTTPException(404, "no such thread")
    asked = {"role": "user", "content": question.text}
    async with memory.aturn(config, begin={"messages": []}) as turn:
        turn.state["messages"].append(asked)
        turn.say(asked)  # into the record of messages, which search reads
        await turn.acheckpoint(node_name="question")  # a crash from here on loses the answer only
        reply = {"role": "assistant", "content": await answer(turn.state["messages"])}
        turn.state["messages"].append(reply)
        turn.say(reply)
    return reply


@app.post("/threads/{thread_id}/regenerate", status_code=201)
async def regenerate(config: Thread, memory: Memory) -> dict[str, str]:
    """Answer the last question again. The old answer leaves the conversation and stays in the history."""
    async with memory.alease(config, wait=30):  # no turn runs meanwhile
        head = await memory.aget_checkpoint(config)
        if head is None:
            raise HTTPException(409, "there is no question to answer")
        messages = head.state["messages"]
        answered = messages[-1]["role"] == "assistant"  # not if the process died before the answer
        attempt = head.metadata.metadata.get("attempt", 0) + answered
        said = messages[:-1] if answered else messages
        reply = {"role": "assistant", "content": await answer(said, attempt)}
        if answered:
            await memory.arewind(config, to=head.metadata.parent_id)  # back to the question
        state = {**head.state, "messages": [*said, reply]}
        await memory.aput_checkpoint(config, state, messages=[reply], metadata={"attempt": attempt})
    return reply


@app.get("/threads/{thread_id}/events")
async def events(config: Thread, memory: Memory, last_event_id: Annotated[str | None, Header()] = None) -> Response:
    """Tell what happens in the thread, as server-sent events, whichever process does it.

    A browser that reconnects sends the id of the last event that it saw, so it misses nothing.
    """
    if await memory.aget_thread(config) is None:
        raise HTTPException(404, "no such thread")

    async def told() -> AsyncIterator[str]:
        async with memory.awatch(config, since=last_event_id) as watch:
            yield ": watching\n\n"
            async for event in watch:
                yield f"id: {event.position}\nevent: {event.kind}\ndata: {event.thread_id}\n\n"

    return StreamingResponse(told(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


@app.get("/search")
async def search(q: str, user: User, memory: Memory) -> list[dict[str, Any]]:
    """Find messages in all threads of the user, the newest first."""
    hits = await memory.asearch(q, user_id=user)
    return [
        {"thread": hit.thread_id, "role": hit.message.role, "snippet": hit.snippet, "match": [hit.start, hit.end]}
        for hit in hits
    ]


# Errors and the page


@app.exception_handler(clew.LeaseError)
async def busy(_: Request, __: clew.LeaseError) -> JSONResponse:
    return JSONResponse({"detail": "this thread is still answering; try again"}, 409, {"Retry-After": "5"})


@app.exception_handler(clew.PermissionDeniedError)
async def not_yours(_: Request, __: clew.PermissionDeniedError) -> JSONResponse:
    return JSONResponse({"detail": "no such thread"}, 404)  # Others' threads look as if they didn't exist.


@app.exception_handler(clew.ConfigError)
async def wrong(_: Request, error: clew.ConfigError) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 422)


@app.get("/", include_in_schema=False)
def page() -> FileResponse:
    return FileResponse(Path(__file__).with_name("page.html"))
