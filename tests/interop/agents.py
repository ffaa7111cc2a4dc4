"""The agents in Python and Node on their WebSockets: an A2A client gives each a task below /agents/{id}/
and sees it taken, reported on and completed.

    python agents.py URL-OF-THE-DEFAULT-AGENT
"""
import asyncio
import subprocess
import sys
import uuid
from pathlib import Path

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types import GetTaskRequest, Message, Part, Role, SendMessageRequest, TaskState

from cases import Cases, same, until

HERE = Path(__file__).parent


def node():
    """Node has had WebSockets by itself since 22, and behind a flag since 20.10."""
    asked = subprocess.run(["node", "-p", "typeof WebSocket"], capture_output=True, text=True, check=True)
    return ["node"] if asked.stdout.strip() == "function" else ["node", "--experimental-websocket"]


async def gives_a_task(url, agent, binding, process):
    async with httpx.AsyncClient(timeout=30) as http:
        async def look():
            assert process.poll() is None, f"the agent ended with {process.returncode}"
            return (await http.get(f"{url}/bus/agents/{agent}")).json()

        await until(look, lambda seen: seen.get("presence") == "online")
        factory = ClientFactory(ClientConfig(httpx_client=http, supported_protocol_bindings=[binding]))
        client = await factory.create_from_url(f"{url}/agents/{agent}")
        # New words each time: the same ones over and over would be a loop to the bus.
        work = f"count the files of {uuid.uuid4()}"
        message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=work)])
        events = [event async for event in client.send_message(SendMessageRequest(message=message))]
        same(events[0].WhichOneof("payload"), "task")
        updates = [event.status_update.status for event in events[1:] if event.HasField("status_update")]
        said = [(TaskState.Name(status.state), status.message.parts[0].text) for status in updates if status.message.parts]
        assert ("TASK_STATE_WORKING", f"looking at: {work}") in said, said
        same(said[-1], ("TASK_STATE_COMPLETED", f"{agent} did: {work}"))
        task = await client.get_task(GetTaskRequest(id=events[0].task.id))
        same(task.status.state, TaskState.TASK_STATE_COMPLETED)


async def main(url):
    cases = Cases("agents on WebSockets")
    agents = (
        ("pia", [sys.executable, HERE / "python_agent.py", url, "pia"]),
        ("nora", [*node(), HERE / "node_agent.mjs", url, "nora"]),
    )
    for agent, command in agents:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            for binding in ("JSONRPC", "HTTP+JSON"):
                await cases.run(f"{agent} · {binding}", gives_a_task(url, agent, binding, process))
        finally:
            process.kill()
            said, _ = process.communicate()
        if cases.failed:
            print(f"{agent} said:\n{said}", flush=True)
    cases.end()


asyncio.run(main(*sys.argv[1:]))
