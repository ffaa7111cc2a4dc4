"""An agent in Python: takes every task, says how it goes, answers it; resumes its session when the line breaks.

    pip install websockets
    python python_agent.py http://127.0.0.1:7420 pia [token]
"""
import json
import sys
import time
import uuid
from datetime import datetime, timezone

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect


def uuid7():
    random = uuid.uuid4().int & ((1 << 76) - 1)
    value = (time.time_ns() // 1_000_000) << 80 | 7 << 76 | random
    return str(uuid.UUID(int=value & ~(3 << 62) | 2 << 62))


def answer(agent, request, kind, **payload):
    return {
        "protocol": "openclaw.a2a.v1", "messageId": uuid7(), "correlationId": request["correlationId"],
        "timestamp": datetime.now(timezone.utc).isoformat(), "from": {"agentId": agent},
        "to": {"agentId": request["from"]["agentId"]}, "type": kind, "priority": "normal",
        "payload": {"taskId": request["payload"]["taskId"], **payload},
    }


def serve(url, agent, headers, session):
    with connect(f"{url}/bus/agents/{agent}/session", additional_headers=headers) as socket:
        say = lambda **frame: socket.send(json.dumps(frame))
        say(type="hello", window=4, graceSeconds=30, **({"resume": session, "inHands": []} if session else {}))
        for text in socket:
            frame = json.loads(text)
            if frame["type"] == "hello":
                session = frame["sessionId"]
            elif frame["type"] == "deliver":
                message = frame["message"]
                if message["type"] == "task_request":
                    work = message["payload"]["title"]
                    for kind, payload in (
                        ("task_response", {"action": "accepted"}),
                        ("status_update", {"status": "in_progress", "progress": f"looking at: {work}"}),
                        ("task_response", {"action": "completed", "result": {"summary": f"{agent} did: {work}"}}),
                    ):
                        say(type="send", message=answer(agent, message, kind, **payload))
                say(type="ack", messageId=message["messageId"])
            elif frame["type"] in ("receipt", "error", "cancel"):
                print(json.dumps(frame), flush=True)
    return session


if __name__ == "__main__":
    url, agent, *token = sys.argv[1:]
    headers = {"Authorization": f"Bearer {token[0]}"} if token else {}
    session = None
    while True:
        try:
            session = serve(url.replace("http", "ws", 1), agent, headers, session)
        except (ConnectionClosed, OSError) as error:
            print(f"lost: {error}; once more", flush=True)
        time.sleep(1)
