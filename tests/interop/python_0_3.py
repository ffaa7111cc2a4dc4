"""The last Python SDK of 0.3 against the server, over both bindings.

    python python_0_3.py URL-OF-THE-CONFORMANCE-AGENT URL-OF-THE-DEFAULT-AGENT URL-THAT-WANTS-A-TOKEN THE-TOKEN
"""
import asyncio
import base64
import sys
import uuid
from importlib.metadata import version

import httpx
from a2a.client import (
    A2ACardResolver, A2AClientHTTPError, AuthInterceptor, ClientConfig, ClientFactory, CredentialService,
)
from a2a.client.errors import A2AClientJSONRPCError
from a2a.types import (
    DataPart, FilePart, FileWithBytes, FileWithUri, GetTaskPushNotificationConfigParams, Message, Part, PushNotificationAuthenticationInfo,
    PushNotificationConfig, Role, Task, TaskArtifactUpdateEvent, TaskIdParams, TaskPushNotificationConfig,
    TaskQueryParams, TextPart,
)

from cases import Cases, named, same, until
from receiver import Receiver

NOBODY = "0190a0b0-0000-7000-8000-000000000000"


def word(event):
    """What happened, in a word or two."""
    if isinstance(event, Message):
        return "message"
    task, update = event
    if update is None:
        return f"task {task.status.state.value}"
    if isinstance(update, TaskArtifactUpdateEvent):
        return "artifact" + "+" * bool(update.append) + "." * bool(update.last_chunk)
    return update.status.state.value + "!" * update.final


def asking(prefix, text="go", task_id=None, context_id=None):
    return Message(
        message_id=named(prefix), role=Role.user, parts=[Part(root=TextPart(text=text))],
        task_id=task_id, context_id=context_id,
    )


async def told(stream):
    """What happened, and the last of it. The SDK changes a task that it handed out when more comes,
    so each is looked at as it comes."""
    words, last = [], None
    async for last in stream:
        words.append(word(last))
    return words, last


class Suite:
    """All cases over one binding."""

    def __init__(self, card, binding, receiver):
        self.card, self.binding, self.receiver = card, binding, receiver
        self.plain, self.polling, self.streaming = (
            self.client(**how)
            for how in ({"streaming": False}, {"streaming": False, "polling": True}, {"streaming": True})
        )

    def client(self, **how):
        http = httpx.AsyncClient(timeout=30)
        config = ClientConfig(httpx_client=http, supported_transports=[self.binding], **how)
        return ClientFactory(config).create(self.card)

    async def first(self, client, message):
        """The one answer of a call that does not stream."""
        words, answer = await told(client.send_message(message))
        same(len(words), 1)
        return answer if isinstance(answer, Message) else answer[0]

    async def task(self, prefix, **how):
        task = await self.first(self.plain, asking(prefix, **how))
        assert isinstance(task, Task), task
        return task

    async def begun(self, prefix):
        """A task that is being worked on."""
        task = await self.first(self.polling, asking(prefix))
        return await until(lambda: self.get(task.id), lambda seen: seen.status.state.value == "working")

    def get(self, task_id, **how):
        return self.plain.get_task(TaskQueryParams(id=task_id, **how))

    def cancel(self, task_id):
        return self.plain.cancel_task(TaskIdParams(id=task_id))

    async def refused(self, call, code, status):
        """Over HTTP+JSON this SDK looks at the status only."""
        try:
            await call
        except A2AClientJSONRPCError as error:
            same((self.binding, error.error.code), ("JSONRPC", code))
        except A2AClientHTTPError as error:
            same((self.binding, error.status_code), ("HTTP+JSON", status))
        else:
            raise AssertionError("was not refused")

    async def sends_and_waits(self):
        task = await self.task("tck-complete-task")
        same(task.status.state.value, "completed")
        same(task.status.message.parts[0].root.text, "Hello from TCK")
        assert task.context_id, task
        # Over HTTP+JSON this SDK does not read the time, which is there.
        assert task.status.timestamp or self.binding == "HTTP+JSON", task

    async def sends_and_does_not_wait(self):
        task = await self.first(self.polling, asking("tck-cancel"))
        assert task.status.state.value in ("submitted", "working"), task
        await self.cancel(task.id)

    async def gets_a_plain_message(self):
        answer = await self.first(self.plain, asking("tck-message-response"))
        same(answer.parts[0].root.text, "Direct message response")

    async def gets_artifacts(self):
        async def part(prefix):
            return (await self.task(prefix)).artifacts[0].parts[0].root
        same((await part("tck-artifact-text")).text, "Generated text content")
        same((await part("tck-artifact-data")).data, {"key": "value", "count": 42})
        same((await part("tck-artifact-file-url")).file.uri, "https://example.com/output.txt")
        file = (await part("tck-artifact-file")).file
        # Over HTTP+JSON the bytes are in base64 once, as protocol buffers have it; this SDK decodes
        # them and leaves them so, where its own model says base64.
        same(file.bytes if self.binding == "HTTP+JSON" else base64.b64decode(file.bytes).decode(), "tck")

    async def sends_all_kinds_of_parts(self):
        message = asking("tck-complete-task")
        encoded = base64.b64encode(b"\x00\xff bytes").decode()
        sent = [
            FilePart(file=FileWithBytes(bytes=encoded, mime_type="application/octet-stream")),
            FilePart(file=FileWithUri(uri="https://example.com/a.txt", mime_type="text/plain")),
            DataPart(data={"answer": 42}),
        ]
        message.parts += [Part(root=part) for part in sent]
        task = await self.first(self.plain, message)
        kept = [part.root for part in (await self.get(task.id)).history[0].parts[1:]]
        same([part.kind for part in kept], ["file", "file", "data"])
        same((kept[0].file.bytes, kept[0].file.mime_type), (encoded, "application/octet-stream"))
        same((kept[1].file.uri, kept[2].data), ("https://example.com/a.txt", {"answer": 42}))

    async def streams(self):
        words, (task, _) = await told(self.streaming.send_message(asking("tck-stream-001")))
        assert words[0] in ("task submitted", "task working"), words
        same(words[-2:], ["artifact.", "completed!"])
        # The SDK puts the task together from the events; the server must have the same.
        same(task.artifacts[0].parts[0].root.text, "Stream hello from TCK")
        same((await self.get(task.id)).artifacts, task.artifacts)

    async def streams_pieces(self):
        words, (task, _) = await told(self.streaming.send_message(asking("tck-stream-artifact-chunked")))
        same([word for word in words if word.startswith("artifact")], ["artifact", "artifact+."])
        same("".join(part.root.text for part in task.artifacts[0].parts), "chunk-1 chunk-2")

    async def streams_a_message(self):
        words, _ = await told(self.streaming.send_message(asking("tck-message-response")))
        same(words, ["message"])

    async def gets(self):
        task = await self.task("tck-complete-task", text="remember me")
        whole = await self.get(task.id)
        same((whole.id, whole.status.state.value), (task.id, "completed"))
        same(whole.history[0].parts[0].root.text, "remember me")
        same(len((await self.get(task.id, history_length=0)).history or []), 0)

    async def goes_on_after_a_question(self):
        task = await self.task("tck-input-required")
        same(task.status.state.value, "input-required")
        done = await self.task("tck-complete-task", task_id=task.id, context_id=task.context_id)
        same((done.id, done.status.state.value), (task.id, "completed"))

    async def resubscribes_and_cancels(self):
        task = await self.begun("tck-cancel")
        events = self.streaming.resubscribe(TaskIdParams(id=task.id))
        same(word(await anext(events)), "task working")
        same((await self.cancel(task.id)).status.state.value, "canceled")
        words, _ = await told(events)
        same(words[-1], "canceled!")
        same((await self.get(task.id)).status.state.value, "canceled")

    async def resubscribes_until_the_end(self):
        task = await self.begun("test-resubscribe-message-id")
        words, _ = await told(self.streaming.resubscribe(TaskIdParams(id=task.id)))
        same((words[0], words[-1]), ("task working", "completed!"))

    async def is_told_by_webhook(self):
        task = await self.begun("tck-cancel")
        name = str(uuid.uuid4())
        config = PushNotificationConfig(
            id="mine", url=self.receiver.url(name), token="a-token",
            authentication=PushNotificationAuthenticationInfo(schemes=["Bearer"], credentials="a-secret"),
        )
        made = await self.plain.set_task_callback(
            TaskPushNotificationConfig(task_id=task.id, push_notification_config=config)
        )
        same((made.task_id, made.push_notification_config.id), (task.id, "mine"))
        got = await self.plain.get_task_callback(
            GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id="mine")
        )
        same(got.push_notification_config.url, self.receiver.url(name))
        await self.cancel(task.id)
        headers, body = await self.receiver.until(name, lambda body: body["status"]["state"] == "canceled")
        same(headers["x-a2a-notification-token"], "a-token")
        same(headers["authorization"], "Bearer a-secret")
        same(headers["content-type"], "application/json")
        same(Task.model_validate(body).id, task.id)

    async def is_told_by_the_webhook_of_a_message(self):
        name = str(uuid.uuid4())
        push = PushNotificationConfig(id="with-it", url=self.receiver.url(name))
        # Given with the call and not with the client, this SDK fails over HTTP+JSON before it sends.
        client = self.client(streaming=False, push_notification_configs=[push])
        await self.first(client, asking("tck-complete-task"))
        await self.receiver.until(name, lambda body: body["status"]["state"] == "completed")

    async def is_refused(self):
        await self.refused(self.get(NOBODY), -32001, 404)
        await self.refused(self.cancel(NOBODY), -32001, 404)
        task = await self.task("tck-complete-task")
        await self.refused(self.cancel(task.id), -32002, 400)
        await self.refused(self.first(self.plain, asking("tck-complete-task", task_id=NOBODY)), -32001, 404)

    def cases(self):
        yield "send and wait", self.sends_and_waits()
        yield "send without waiting", self.sends_and_does_not_wait()
        yield "a plain message", self.gets_a_plain_message()
        yield "artifacts", self.gets_artifacts()
        yield "parts", self.sends_all_kinds_of_parts()
        yield "stream", self.streams()
        yield "stream in pieces", self.streams_pieces()
        yield "stream of a plain message", self.streams_a_message()
        yield "get", self.gets()
        yield "input required", self.goes_on_after_a_question()
        yield "resubscribe, cancel", self.resubscribes_and_cancels()
        yield "resubscribe to the end", self.resubscribes_until_the_end()
        yield "webhook", self.is_told_by_webhook()
        yield "webhook of a message", self.is_told_by_the_webhook_of_a_message()
        yield "errors", self.is_refused()


async def card_of(url):
    async with httpx.AsyncClient() as http:
        return await A2ACardResolver(http, url).get_agent_card()


async def reads_the_card(url):
    card = await card_of(url)
    same((card.protocol_version, card.preferred_transport), ("0.3.0", "JSONRPC"))
    assert card.capabilities.streaming and card.capabilities.push_notifications, card
    same({offered.transport for offered in card.additional_interfaces}, {"JSONRPC", "HTTP+JSON"})


async def first_conversation(url):
    """What somebody tries first: the address, nothing else."""
    client = await ClientFactory.connect(url)
    words, (task, _) = await told(client.send_message(asking("hello", text="echo hello there")))
    same(words[-1], "completed!")
    same(task.status.message.parts[0].root.text, "hello there")


class Token(CredentialService):
    def __init__(self, token):
        self.token = token

    async def get_credentials(self, security_scheme_name, context):
        return self.token if security_scheme_name == "bearer" else None


async def shows_a_token(url, token, binding):
    """The SDK reads in the card what is wanted, and asks for it by the name that it has there."""
    card = await card_of(url)
    stranger = Suite(card, binding, None)
    try:
        await stranger.task("tck-complete-task")
    except A2AClientHTTPError as error:
        same(error.status_code, 401)
    else:
        raise AssertionError("was not refused")
    # Over HTTP+JSON this SDK does not ask its interceptors.
    headers = {"Authorization": f"Bearer {token}"} if binding == "HTTP+JSON" else {}
    http = httpx.AsyncClient(timeout=30, headers=headers)
    config = ClientConfig(httpx_client=http, supported_transports=[binding], streaming=False)
    known = ClientFactory(config).create(card, interceptors=[AuthInterceptor(Token(token))])
    _, (task, _) = await told(known.send_message(asking("tck-complete-task")))
    same(task.status.state.value, "completed")
    extended = await known.get_card()
    same((extended.name, extended.security_schemes["bearer"].root.scheme), (card.name, "Bearer"))


async def main(conformance, openclaw, secured, token):
    cases = Cases(f"a2a-sdk {version('a2a-sdk')}")
    receiver = Receiver()
    await cases.run("card", reads_the_card(openclaw))
    await cases.run("first conversation", first_conversation(openclaw))
    card = await card_of(conformance)
    for binding in ("JSONRPC", "HTTP+JSON"):
        for name, case in Suite(card, binding, receiver).cases():
            await cases.run(f"0.3 {binding} · {name}", case)
        await cases.run(f"0.3 {binding} · token", shows_a_token(secured, token, binding))
    cases.end()


asyncio.run(main(*sys.argv[1:]))
