"""Asks the agent at an A2A address something and prints what happens.

    pip install 'a2a-sdk>=1.0' httpx
    python client.py http://127.0.0.1:7420 'who is here' [token]
"""
import asyncio
import sys
import uuid

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, SendMessageRequest, TaskState


def words(message):
    return "".join(part.text for part in message.parts)


async def main(url, text, token=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        client = await ClientFactory(ClientConfig(httpx_client=http)).create_from_url(url)
        message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)])
        async for event in client.send_message(SendMessageRequest(message=message)):
            if event.HasField("status_update"):
                status = event.status_update.status
                print(TaskState.Name(status.state), words(status.message))
            elif event.HasField("message"):  # an answer without a task
                print(words(event.message))


asyncio.run(main(*sys.argv[1:]))
