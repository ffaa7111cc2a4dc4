"""The programs that docs/ shows: each is run as it is shown, and what it prints is looked at.

    python guides.py URL-OF-THE-DEFAULT-AGENT URL-THAT-WANTS-A-TOKEN THE-TOKEN FOLDER-WITH-THE-NODE-MODULES
"""
import asyncio
import subprocess
import sys
import uuid
from pathlib import Path

import httpx

from cases import Cases, same, until

HERE = Path(__file__).parent / "guides"
PROGRESS = "https://a2a-protocol.org/extensions/task-progress/v1"


async def prints(words, *command):
    ran = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said, _ = await ran.communicate()
    said = said.decode()
    assert ran.returncode == 0 and all(word in said for word in words), f"{ran.returncode}: {said}"


async def a_bar(url):
    """progress.py works for an A2A client, which sees the bar at its end."""
    async with httpx.AsyncClient(base_url=url, timeout=60, headers={"A2A-Extensions": PROGRESS}) as http:
        await http.get("/bus/agents/tim/inbox")
        ran = asyncio.create_task(prints([], sys.executable, HERE / "progress.py", url, "tim"))
        message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "fetch the files"}]}
        sent = await http.post("/agents/tim/message:send", json={"message": message, "configuration": {"returnImmediately": True}})
        task = sent.json()["task"]["id"]

        async def look():
            return (await http.get(f"/agents/tim/tasks/{task}")).json()

        seen = await until(look, lambda it: it["status"]["state"] == "TASK_STATE_COMPLETED")
        await ran
        tracker = seen["status"]["message"]["metadata"][PROGRESS]["trackers"][0]
        same((tracker["progress"], tracker["total"]), (40, 40))


async def main(url, secured, token, modules):
    cases = Cases("the programs of the guides")
    python = [sys.executable, HERE / "client.py"]
    node = ["node", Path(modules) / "client.mjs"]
    await cases.run("client.py", prints(["TASK_STATE_COMPLETED", "known here"], *python, url, "who is here"))
    await cases.run("client.py, a plain answer", prints(["Direct message response"], *python, secured, "tck-message-response", token))
    await cases.run("client.mjs, a plain answer", prints(["Direct message response"], *node, secured, "tck-message-response", token))
    await cases.run("client.py with a token", prints(["TASK_STATE_COMPLETED"], *python, secured, "tck-complete-task", token))
    await cases.run("client.mjs", prints(["TASK_STATE_COMPLETED", "known here"], *node, url, "who is here"))
    await cases.run("client.py, one of several agents", prints(["known here"], *python, f"{url}/agents/openclaw", "who is here"))
    await cases.run("client.mjs, one of several agents", prints(["known here"], *node, f"{url}/agents/openclaw", "who is here"))
    await cases.run("client.mjs with a token", prints(["TASK_STATE_COMPLETED"], *node, secured, "tck-complete-task", token))
    await cases.run("progress.py", a_bar(url))
    cases.end()


asyncio.run(main(*sys.argv[1:]))
