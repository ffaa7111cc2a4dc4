"""An agent whose tasks have a progress bar: takes one task from its inbox over HTTP, says how far it is, answers.

    pip install httpx
    python progress.py http://127.0.0.1:7420 filer
"""
import sys
import time
import uuid
from datetime import datetime, timezone

import httpx

PROGRESS = "https://a2a-protocol.org/extensions/task-progress/v1"


def uuid7():
    random = uuid.uuid4().int & ((1 << 76) - 1)
    value = (time.time_ns() // 1_000_000) << 80 | 7 << 76 | random
    return str(uuid.UUID(int=value & ~(3 << 62) | 2 << 62))


def say(http, agent, request, kind, **payload):
    answer = http.post("/bus/messages", json={
        "protocol": "openclaw.a2a.v1", "messageId": uuid7(), "correlationId": request["correlationId"],
        "timestamp": datetime.now(timezone.utc).isoformat(), "from": {"agentId": agent},
        "to": {"agentId": request["from"]["agentId"]}, "type": kind, "priority": "normal",
        "payload": {"taskId": request["payload"]["taskId"], **payload},
    })
    answer.raise_for_status()


def first_task(http, agent):
    """Other messages are leased for a minute, not acknowledged, and delivered again."""
    while True:
        taken = http.get(f"/bus/agents/{agent}/inbox", params={"wait": "60s", "limit": 1}).json()
        for message in (item["message"] for item in taken["messages"]):
            if message["type"] == "task_request":
                return message


url, agent = sys.argv[1:]
with httpx.Client(base_url=url, timeout=70) as http:
    request = first_task(http, agent)
    say(http, agent, request, "task_response", action="accepted")
    for done in (10, 40):
        bar = {"trackers": [{"id": "files", "progress": done, "total": 40, "message": f"{done} of 40 files"}]}
        say(http, agent, request, "status_update", status="in_progress", progress=f"{done} of 40 files",
            metadata={PROGRESS: bar})
    say(http, agent, request, "task_response", action="completed", result={"summary": "40 files are here"})
    http.post(f"/bus/agents/{agent}/inbox/{request['messageId']}/ack").raise_for_status()
