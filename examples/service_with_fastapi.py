"""A web service with one agent for many users. Conversations are stored, and survive a restart of the service.

python service_with_fastapi.py [PORT]        needs: pip install fastapi uvicorn
curl 127.0.0.1:8000/ask -H 'Content-Type: application/json' -d '{"question": "How much is 17% of 2400?"}'
"""

import sys
from typing import Annotated
from uuid import UUID, uuid4

import uvicorn
from fastapi import Body, FastAPI, HTTPException

from agentkit import LLM, Agent, Limits, NoProvider, core_tools

app = FastAPI(title="An agent")
try:
    llm = LLM()  # one client for all requests
except NoProvider as error:
    sys.exit(f"Error: {error}")
clerk = Agent("clerk", core_tools, llm=llm, limits=Limits(seconds=60), remember=False)


@app.post("/ask")
async def ask(
    question: Annotated[str, Body(max_length=10_000, pattern=r"\S")],
    conversation: Annotated[UUID, Body(default_factory=uuid4)],
) -> dict[str, object]:
    """Answer a question. To continue a conversation, send the `conversation` of its answer."""
    result = await clerk.arun(question, session=f"web/{conversation}")
    if result.status == "failed":
        raise HTTPException(502, str(result.error))
    tools = [used.call.name for used in result.tool_calls]
    return {"answer": result.output, "status": result.status, "conversation": conversation, "tools": tools}


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]) if sys.argv[1:] else 8000)
