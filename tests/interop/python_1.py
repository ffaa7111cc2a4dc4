"""The Python SDK 1.x against the server: 1.0 and, in its compatibility mode, 0.3, over both bindings.

    python python_1.py URL-OF-THE-CONFORMANCE-AGENT URL-OF-THE-DEFAULT-AGENT URL-THAT-WANTS-A-TOKEN THE-TOKEN
"""
import asyncio
import binascii
import sys
import uuid
from importlib.metadata import version

import httpx
from a2a.client import A2ACardResolver, A2AClientError, AuthInterceptor, ClientConfig, ClientFactory, CredentialService
from a2a.types import (
    AgentCard, AuthenticationInfo, CancelTaskRequest, DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest, GetTaskPushNotificationConfigRequest, GetTaskRequest, ListTaskPushNotificationConfigsRequest,
    ListTasksRequest, Message, Part, Role, SendMessageConfiguration, SendMessageRequest,
    SubscribeToTaskRequest, TaskNotCancelableError, TaskNotFoundError, TaskPushNotificationConfig,
    TaskState, UnsupportedOperationError,
)

from cases import Cases, named, same, until
from receiver import Receiver

NOBODY = "0190a0b0-0000-7000-8000-000000000000"


def state(task):
    return TaskState.Name(task.status.state).removeprefix("TASK_STATE_").lower()


def words(events):
    """What happened, each in a word or two."""
    said = []
    for event in events:
        match event.WhichOneof("payload"):
            case "task":
                said.append(f"task {state(event.task)}")
            case "status_update":
                said.append(state(event.status_update))
            case "artifact_update":
                update = event.artifact_update
                said.append("artifact" + "+" * update.append + "." * update.last_chunk)
            case other:
                said.append(other)
    return said


def asking(prefix, text="go", task_id=None, context_id=None, **configuration):
    message = Message(
        message_id=named(prefix), role=Role.ROLE_USER, parts=[Part(text=text)],
        task_id=task_id, context_id=context_id,
    )
    return SendMessageRequest(message=message, configuration=SendMessageConfiguration(**configuration))


async def first(answers):
    """The one answer of a call that does not stream."""
    answers = [answer async for answer in answers]
    same(len(answers), 1)
    return answers[0]


async def refused(call, *errors):
    try:
        await call
    except errors:
        return
    raise AssertionError(f"was not refused with {errors}")


async def drained(stream):
    return [event async for event in stream]


def client(card, protocol, binding, interceptors=None, http=None, **how):
    """A client that speaks so. The SDK prefers 1.0; a card that offers one interface leaves it no choice."""
    only = AgentCard()
    only.CopyFrom(card)
    del only.supported_interfaces[:]
    only.supported_interfaces.extend(
        offered for offered in card.supported_interfaces
        if (offered.protocol_version, offered.protocol_binding) == (protocol, binding)
    )
    same(len(only.supported_interfaces), 1)
    http = http or httpx.AsyncClient(timeout=30)
    config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], **how)
    return ClientFactory(config).create(only, interceptors)


class Suite:
    """All cases for one version over one binding."""

    def __init__(self, card, protocol, binding, receiver):
        self.protocol, self.binding, self.receiver = protocol, binding, receiver
        self.plain, self.polling, self.streaming = (
            client(card, protocol, binding, **how)
            for how in ({"streaming": False}, {"streaming": False, "polling": True}, {"streaming": True})
        )

    async def task(self, prefix, **how):
        return (await first(self.plain.send_message(asking(prefix, **how)))).task

    async def begun(self, prefix, **how):
        """A task that is being worked on."""
        task = (await first(self.polling.send_message(asking(prefix, **how)))).task
        return await until(lambda: self.get(task.id), lambda seen: state(seen) == "working")

    def get(self, task_id, **how):
        return self.plain.get_task(GetTaskRequest(id=task_id, **how))

    async def sends_and_waits(self):
        task = await self.task("tck-complete-task")
        same(state(task), "completed")
        same(task.status.message.parts[0].text, "Hello from TCK")
        same(task.status.message.role, Role.ROLE_AGENT)
        assert task.context_id and task.status.timestamp.seconds

    async def sends_and_does_not_wait(self):
        task = (await first(self.polling.send_message(asking("tck-cancel")))).task
        assert state(task) in ("submitted", "working"), task
        await self.plain.cancel_task(CancelTaskRequest(id=task.id))

    async def gets_a_plain_message(self):
        answer = await first(self.plain.send_message(asking("tck-message-response")))
        same(answer.message.parts[0].text, "Direct message response")

    async def gets_artifacts(self):
        text = (await self.task("tck-artifact-text")).artifacts[0].parts[0]
        same(text.text, "Generated text content")
        data = (await self.task("tck-artifact-data")).artifacts[0].parts[0]
        same(data.data.struct_value["count"], 42)
        url = (await self.task("tck-artifact-file-url")).artifacts[0].parts[0]
        same((url.url, url.media_type), ("https://example.com/output.txt", "text/plain"))
        if (self.protocol, self.binding) == ("0.3", "HTTP+JSON"):
            # The SDK expects the bytes in base64 twice; protocol buffers, and JavaScript, have it once.
            return await refused(self.task("tck-artifact-file"), binascii.Error)
        file = (await self.task("tck-artifact-file")).artifacts[0].parts[0]
        same((file.raw, file.filename), (b"tck", "output.txt"))

    async def sends_all_kinds_of_parts(self):
        request = asking("tck-complete-task")
        data = Part()
        data.data.struct_value.update({"answer": 42})
        request.message.parts.extend([
            Part(raw=b"\x00\xff bytes", filename="a.bin", media_type="application/octet-stream"),
            Part(url="https://example.com/a.txt", media_type="text/plain"), data,
        ])
        task = (await first(self.plain.send_message(request))).task
        kept = (await self.get(task.id)).history[0].parts
        same([part.WhichOneof("content") for part in kept], ["text", "raw", "url", "data"])
        same((kept[1].raw, kept[1].filename), (b"\x00\xff bytes", "a.bin"))
        same((kept[2].url, kept[2].media_type), ("https://example.com/a.txt", "text/plain"))
        same(kept[3].data.struct_value["answer"], 42)

    async def streams(self):
        events = await drained(self.streaming.send_message(asking("tck-stream-001")))
        told = words(events)
        assert told[0] in ("task submitted", "task working"), told
        same(told[-2:], ["artifact.", "completed"])
        last = await self.get(events[0].task.id)
        same(last.artifacts[0].parts[0].text, "Stream hello from TCK")

    async def streams_pieces(self):
        events = await drained(self.streaming.send_message(asking("tck-stream-artifact-chunked")))
        same([word for word in words(events) if word.startswith("artifact")], ["artifact", "artifact+."])
        whole = await self.get(events[0].task.id)
        same("".join(part.text for part in whole.artifacts[0].parts), "chunk-1 chunk-2")

    async def streams_a_message(self):
        events = await drained(self.streaming.send_message(asking("tck-message-response")))
        same(words(events), ["message"])

    async def gets(self):
        task = await self.task("tck-complete-task", text="remember me")
        whole = await self.get(task.id)
        same((whole.id, state(whole)), (task.id, "completed"))
        same(whole.history[0].parts[0].text, "remember me")
        same(len((await self.get(task.id, history_length=0)).history), 0)

    async def goes_on_after_a_question(self):
        task = await self.task("tck-input-required")
        same(state(task), "input_required")
        done = await self.task("tck-complete-task", task_id=task.id, context_id=task.context_id)
        same((done.id, state(done)), (task.id, "completed"))

    async def lists(self):
        context = str(uuid.uuid4())
        tasks = [await self.task("tck-complete-task", context_id=context) for _ in range(3)]
        page = await self.plain.list_tasks(ListTasksRequest(context_id=context, page_size=2))
        same((len(page.tasks), page.total_size), (2, 3))
        rest = await self.plain.list_tasks(
            ListTasksRequest(context_id=context, page_size=2, page_token=page.next_page_token)
        )
        same(rest.next_page_token, "")
        same([task.id for task in [*page.tasks, *rest.tasks]], [task.id for task in reversed(tasks)])
        failed = ListTasksRequest(context_id=context, status=TaskState.TASK_STATE_FAILED)
        same(len((await self.plain.list_tasks(failed)).tasks), 0)

    async def subscribes_and_cancels(self):
        task = await self.begun("tck-cancel")
        events = self.streaming.subscribe(SubscribeToTaskRequest(id=task.id))
        told = [await anext(events)]
        same(words(told), ["task working"])
        same(state(await self.plain.cancel_task(CancelTaskRequest(id=task.id))), "canceled")
        told += await drained(events)
        same(words(told)[-1], "canceled")
        same(state(await self.get(task.id)), "canceled")

    async def subscribes_until_the_end(self):
        task = await self.begun("test-resubscribe-message-id")
        told = words(await drained(self.streaming.subscribe(SubscribeToTaskRequest(id=task.id))))
        same((told[0], told[-1]), ("task working", "completed"))

    async def is_told_by_webhook(self):
        task = await self.begun("tck-cancel")
        name = str(uuid.uuid4())
        made = await self.plain.create_task_push_notification_config(TaskPushNotificationConfig(
            task_id=task.id, id="mine", url=self.receiver.url(name), token="a-token",
            authentication=AuthenticationInfo(scheme="Bearer", credentials="a-secret"),
        ))
        same((made.task_id, made.id, made.url), (task.id, "mine", self.receiver.url(name)))
        key = {"task_id": task.id, "id": "mine"}
        got = await self.plain.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(**key))
        same((got.id, got.url), ("mine", self.receiver.url(name)))
        # The compatibility mode of the SDK cannot list or delete over HTTP+JSON.
        if (self.protocol, self.binding) != ("0.3", "HTTP+JSON"):
            listed = await self.plain.list_task_push_notification_configs(
                ListTaskPushNotificationConfigsRequest(task_id=task.id)
            )
            same([config.id for config in listed.configs], ["mine"])
        await self.plain.cancel_task(CancelTaskRequest(id=task.id))
        headers, body = await self.receiver.until(name, self.says("canceled"))
        same(headers["x-a2a-notification-token"], "a-token")
        same(headers["authorization"], "Bearer a-secret")
        kind = "application/json" if self.protocol == "0.3" else "application/a2a+json"
        same(headers["content-type"], kind)
        if (self.protocol, self.binding) != ("0.3", "HTTP+JSON"):
            await self.plain.delete_task_push_notification_config(DeleteTaskPushNotificationConfigRequest(**key))
            listed = await self.plain.list_task_push_notification_configs(
                ListTaskPushNotificationConfigsRequest(task_id=task.id)
            )
            same(len(listed.configs), 0)

    async def is_told_by_the_webhook_of_a_message(self):
        name = str(uuid.uuid4())
        push = TaskPushNotificationConfig(id="with-it", url=self.receiver.url(name))
        await self.task("tck-complete-task", task_push_notification_config=push)
        await self.receiver.until(name, self.says("completed"))

    def says(self, word):
        """Whether a notification tells of that state, in the form of its version."""
        def told(body):
            if self.protocol == "0.3":
                return body["kind"] == "task" and body["status"]["state"] == word
            of = body.get("task") or body.get("statusUpdate") or {}
            return of.get("status", {}).get("state") == f"TASK_STATE_{word.upper()}"
        return told

    async def is_refused(self):
        await refused(self.get(NOBODY), TaskNotFoundError)
        await refused(self.plain.cancel_task(CancelTaskRequest(id=NOBODY)), TaskNotFoundError)
        task = await self.task("tck-complete-task")
        await refused(self.plain.cancel_task(CancelTaskRequest(id=task.id)), TaskNotCancelableError)
        watch = self.streaming.subscribe(SubscribeToTaskRequest(id=NOBODY))
        await refused(drained(watch), TaskNotFoundError)
        if self.protocol == "1.0":
            watch = self.streaming.subscribe(SubscribeToTaskRequest(id=task.id))
            await refused(drained(watch), UnsupportedOperationError)

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
        # 0.3 has no list of tasks, and neither has the SDK's compatibility mode.
        if self.protocol == "1.0":
            yield "list", self.lists()
        yield "subscribe, cancel", self.subscribes_and_cancels()
        yield "subscribe to the end", self.subscribes_until_the_end()
        yield "webhook", self.is_told_by_webhook()
        yield "webhook of a message", self.is_told_by_the_webhook_of_a_message()
        yield "errors", self.is_refused()


async def card_of(url):
    async with httpx.AsyncClient() as http:
        return await A2ACardResolver(http, url).get_agent_card()


async def reads_the_card(url):
    card = await card_of(url)
    assert card.capabilities.streaming and card.capabilities.push_notifications, card
    same(len(card.supported_interfaces), 4)
    assert card.name and card.description and card.version and card.skills, card


async def first_conversation(url):
    """What somebody tries first: the address, nothing else."""
    client = await ClientFactory(ClientConfig()).create_from_url(url)
    events = await drained(client.send_message(asking("hello", text="echo hello there")))
    same(words(events)[-1], "completed")
    same(events[-1].status_update.status.message.parts[0].text, "hello there")


class Token(CredentialService):
    def __init__(self, token):
        self.token = token

    async def get_credentials(self, security_scheme_name, context):
        return self.token if security_scheme_name == "bearer" else None


async def shows_a_token(url, token, protocol, binding):
    """The SDK reads in the card what is wanted, and asks for it by the name that it has there."""
    card = await card_of(url)
    stranger = client(card, protocol, binding, streaming=False)
    await refused(first(stranger.send_message(asking("tck-complete-task"))), A2AClientError)
    known = client(card, protocol, binding, [AuthInterceptor(Token(token))], streaming=False)
    same(state((await first(known.send_message(asking("tck-complete-task")))).task), "completed")
    extended = await known.get_extended_agent_card(GetExtendedAgentCardRequest())
    same((extended.name, list(extended.security_schemes)), (card.name, ["bearer"]))


async def main(conformance, openclaw, secured, token):
    cases = Cases(f"a2a-sdk {version('a2a-sdk')}")
    receiver = Receiver()
    await cases.run("card", reads_the_card(openclaw))
    await cases.run("first conversation", first_conversation(openclaw))
    card = await card_of(conformance)
    for protocol in ("1.0", "0.3"):
        for binding in ("JSONRPC", "HTTP+JSON"):
            for name, case in Suite(card, protocol, binding, receiver).cases():
                await cases.run(f"{protocol} {binding} · {name}", case)
            await cases.run(f"{protocol} {binding} · token", shows_a_token(secured, token, protocol, binding))
    cases.end()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
