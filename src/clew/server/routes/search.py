"""Search across all threads of a user."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, Response, get
from litestar.params import QueryParameter

from clew.server.calls import PageLimit, Position, UserId, call_of, plain
from clew.server.response_types import HitPage, page

Text = Annotated[str, QueryParameter(name="q", min_length=1, max_length=1000, description="Text to find, in any case.")]


@get("/search", summary="Search messages", tags=["messages"])
async def search(
    request: Request[Any, Any, Any], text: Text, user_id: UserId = None, before: Position = None, limit: PageLimit = 20
) -> Response[HitPage]:
    """Find messages that contain a text in all threads of the user, newest first, with snippets. Pass
    `next` as `before` to get the next page.
    """
    call = call_of(request)
    user = call.caller.acting_for(user_id)
    hits = await call.memory.asearch(text, user_id=user, limit=limit + 1, before=before)
    shown, following = page(hits, limit, lambda last: last.position)
    return plain({"hits": shown, "next": following})


HANDLERS = [search]
