"""Objectives, plans and tasks (OPT) with the Python SDK 1.x: the three ways of the extension's design, as 1.0 and 0.3.

    python python_opt.py URL-OF-THE-SERVER

The tasks are done by the example agent of this folder: the server's own agent declines work that it cannot do.
The SDK knows extensions, but not this one: messages and tasks go through it, what the extension adds is asked for
with plain HTTP, as a client of today would do it.
"""
import asyncio
import json
import pathlib
import subprocess
import sys
from importlib.metadata import version

import httpx
from a2a.client import ClientCallContext
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.compat.v0_3 import conversions, types as types_0_3
from a2a.types import GetTaskRequest, ListTasksRequest

from cases import Cases, same
from python_1 import asking, card_of, client, drained, first, refused, state, words

OPT = "https://github.com/zeroasterisk/a2a-opt/v1"
NOT_ACTIVATED = -32008
NOT_FOUND = -32001
# Two steps, the second with what came of the first.
TEXT = "Research AI safety papers and write a summary"
STEPS = ["Research AI safety papers", "write a summary"]
# Longer than the work takes; the server answers when there is news.
WAIT_MS = 5000


def activated():
    """What a caller of the SDK passes along to activate an extension."""
    return ClientCallContext(service_parameters=ServiceParametersFactory.create([with_a2a_extensions([OPT])]))


def linked(task):
    """Where a task says that it belongs; numbers come out of protocol buffers as fractions."""
    return tuple(task.metadata[f"opt/v1/{key}"] for key in ("objectiveId", "planId", "taskIndex"))


def revision(objective):
    return objective["metadata"]["opt/v1/revision"]


class Suite:
    """All cases for one version over one binding."""

    def __init__(self, card, protocol, binding, url):
        self.protocol, self.binding, self.url = protocol, binding, url
        self.http = httpx.AsyncClient(timeout=30)
        self.answered = None
        heard = httpx.AsyncClient(timeout=30, event_hooks={"response": [self.hear]})
        self.plain = client(card, protocol, binding, http=heard, streaming=False)
        self.streaming = client(card, protocol, binding, streaming=True)

    async def hear(self, response):
        """Keeps what the server really said, beside what the SDK makes of it."""
        await response.aread()
        self.answered = response

    def told(self):
        """The last answer, out of its JSON-RPC."""
        said = self.answered.json()
        return said["result"] if self.binding == "JSONRPC" else said

    async def send(self, request):
        """A message with the extension active, and the task that came of it."""
        sending = first(self.plain.send_message(request, context=activated()))
        if (self.protocol, self.binding) != ("0.3", "JSONRPC"):
            task = (await sending).task
        else:
            # The design prints {"task": …, "objective": …} for a message/send, where 0.3 has the bare task: the SDK's
            # compatibility mode looks for a kind, finds none and gives up. Its own types read what is inside.
            await refused(sending, ValueError)
            task = conversions.to_core_task(types_0_3.Task.model_validate(self.told()["task"]))
        legacy = "x-" * (self.protocol == "0.3")
        same(self.answered.headers.get(f"{legacy}a2a-extensions"), OPT)
        return task

    def headers(self, active):
        """The names of the extension's methods are the same in both versions, so a header says which it is."""
        headers = {"A2A-Version": self.protocol}
        return headers | {"A2A-Extensions": OPT} if active else headers

    async def call(self, method, active=True, **params):
        """One method of the extension: its result, or else its error."""
        body = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        response = await self.http.post(self.url, json=body, headers=self.headers(active))
        same(response.status_code, 200)
        answer = response.json()
        same((answer["jsonrpc"], answer["id"]), ("2.0", method))
        return answer["error"] if "error" in answer else answer["result"]

    async def tree(self, objective_id, **how):
        got = await self.call("objectives/get", id=objective_id, includePlans=True, includeTasks=True, **how)
        return got["objective"]

    async def completed(self, objective_id, since=0):
        """Polls as the server offers it: each answer waits for news, and none is older than the one before."""
        while True:
            objective = await self.tree(objective_id, sinceRevision=since, waitMs=WAIT_MS)
            assert revision(objective) > since, f"waited for {since}, saw {objective}"
            if objective["status"] == "completed":
                return objective
            same(objective["status"], "working")
            since = revision(objective)

    async def in_context(self, context_id):
        """The ids of all tasks with that context."""
        if self.protocol == "1.0":
            listed = await self.plain.list_tasks(ListTasksRequest(context_id=context_id), context=activated())
            return {task.id for task in listed.tasks}
        # The SDK's compatibility mode has no list of tasks, the server has: the design asks for it.
        listed = await self.call("tasks/list", contextId=context_id)
        return {task["id"] for task in listed["tasks"]}

    async def declares_itself(self, card):
        mine, = (extension for extension in card.capabilities.extensions if extension.uri == OPT)
        same(mine.required, False)
        same(dict(mine.params), {"maxPlansPerObjective": 10, "maxTasksPerPlan": 50})

    async def a_message_is_planned(self):
        """Option A: a plain message, and the tree behind its task."""
        task = await self.send(asking("opt", text=TEXT))
        objective_id, plan_id, index = linked(task)
        same((task.context_id, index), (objective_id, 0))
        tree = await self.completed(objective_id)
        same((tree["id"], tree["name"]), (objective_id, TEXT))
        plan, = tree["plans"]
        same((plan["id"], plan["objectiveId"], plan["status"]), (plan_id, objective_id, "completed"))
        steps = plan["tasks"]
        same([step["name"] for step in steps], STEPS)
        same([step["taskIndex"] for step in steps], [0, 1])
        same([step["status"] for step in steps], ["completed", "completed"])
        same(steps[1]["dependencies"], [steps[0]["id"]])
        same(steps[0]["a2aTaskId"], task.id)
        same(await self.in_context(objective_id), {step["a2aTaskId"] for step in steps})
        second = await self.plain.get_task(GetTaskRequest(id=steps[1]["a2aTaskId"]), context=activated())
        same((state(second), second.context_id), ("completed", objective_id))
        same(linked(second), (objective_id, plan_id, 1))
        # The proto file of 0.3, which is what HTTP+JSON speaks, has no place for them.
        if (self.protocol, self.binding) != ("0.3", "HTTP+JSON"):
            same(list(second.history[0].reference_task_ids), [task.id])

    async def a_stream_tells_of_it(self):
        events = await drained(self.streaming.send_message(asking("opt", text="echo one step"), context=activated()))
        told = words(events)
        assert told[0].startswith("task "), told
        same(told[-1], "completed")
        objective_id, _, index = linked(events[0].task)
        same((events[0].task.context_id, index), (objective_id, 0))
        news = events[-1].status_update.metadata
        same((news["opt/v1/objective"]["id"], news["opt/v1/objective"]["status"]), (objective_id, "completed"))
        same(news["opt/v1/plan"]["status"], "completed")

    async def without_it_tasks_are_plain(self):
        """Nothing of the extension reaches who has not activated it, not even of a task that is planned."""
        planned = await self.send(asking("opt", text=TEXT))
        await self.completed(linked(planned)[0])
        said = []
        task = (await first(self.plain.send_message(asking("plain", text=TEXT)))).task
        said.append(self.answered)
        same(state(task), "completed")
        assert not task.context_id.startswith("obj-"), task.context_id
        for known in (task, planned):
            same((await self.plain.get_task(GetTaskRequest(id=known.id))).id, known.id)
            said.append(self.answered)
        if self.protocol == "1.0":
            listed = await self.plain.list_tasks(ListTasksRequest(context_id=planned.context_id))
            same(len(listed.tasks), 2)
            said.append(self.answered)
        for answer in said:
            assert "opt/v1" not in answer.text and '"objective"' not in answer.text, answer.text
            same([name for name in answer.headers if name.endswith("a2a-extensions")], [])
        events = await drained(self.streaming.send_message(asking("plain", text=TEXT)))
        same(words(events)[-1], "completed")
        assert "opt/v1" not in str(events), events

    async def without_it_methods_are_refused(self):
        made = await self.call("objectives/create", name="Not without the header")
        for method, params in {
            "objectives/create": {"name": "Nobody's"}, "objectives/get": {"id": made["id"]}, "objectives/list": {},
            "objectives/update": {"id": made["id"], "status": "canceled"}, "objectives/subscribe": {"id": made["id"]},
            "plans/create": {"objectiveId": made["id"], "name": "No", "tasks": [{"name": "echo no"}]},
            "plans/get": {"id": "plan-1"}, "plans/update": {"id": "plan-1", "status": "completed"},
            "plans/addTasks": {"id": "plan-1", "tasks": [{"name": "echo no"}]},
        }.items():
            error = await self.call(method, active=False, **params)
            same((method, error["code"]), (method, NOT_ACTIVATED))
            assert OPT in error["message"], error
        tree = await self.tree(made["id"])
        same((tree["status"], tree.get("plans", []), revision(tree)), ("submitted", [], 1))

    async def a_message_into_a_new_objective(self):
        """Option B as the design prints it: the message follows the objective, which has no plan yet."""
        made = await self.call("objectives/create", name="Research AI safety")
        task = await self.send(asking("opt", text=TEXT, context_id=made["id"]))
        same((task.context_id, linked(task)[0]), (made["id"], made["id"]))
        tree = await self.completed(made["id"])
        same(tree["name"], "Research AI safety")
        same([plan["id"] for plan in tree["plans"]], [linked(task)[1]])
        steps = tree["plans"][0]["tasks"]
        same([step["name"] for step in steps], STEPS)
        same(await self.in_context(made["id"]), {step["a2aTaskId"] for step in steps})

    async def a_message_beside_a_plan(self):
        """Option B with a plan of the caller's own, which waits: the message is one more part of the objective."""
        made = await self.call("objectives/create", name="Blog post", description="About AI safety trends")
        same((made["name"], made["description"], made["status"]), ("Blog post", "About AI safety trends", "submitted"))
        plan = await self.held_plan(made["id"])
        task = await self.send(asking("opt", text="Write a title for the post", context_id=made["id"]))
        same((state(task), task.context_id), ("completed", made["id"]))
        objective_id, plan_id, _ = linked(task)
        same(objective_id, made["id"])
        assert plan_id != plan["id"], "the message went into a plan that waits for approval"
        tree = await self.tree(made["id"])
        same([(each["id"], each["status"]) for each in tree["plans"]], [(plan["id"], "blocked"), (plan_id, "completed")])
        same(tree["status"], "blocked")
        await self.call("plans/update", id=plan["id"], status="working")
        tree = await self.completed(made["id"], since=revision(tree))
        steps = [step for each in tree["plans"] for step in each["tasks"]]
        same([step["status"] for step in steps], ["completed"] * 3)
        same(await self.in_context(made["id"]), {step["a2aTaskId"] for step in steps})

    async def held_plan(self, objective_id):
        """A plan of two tasks that waits for approval, so that nothing moves before the case has looked."""
        plan = await self.call(
            "plans/create", objectiveId=objective_id, name="Research phase", status="blocked",
            tasks=[{"name": "Search papers", "description": "Find 5"}, {"name": "Summarize", "dependencies": ["task-0"]}],
        )
        same((plan["objectiveId"], plan["name"], plan["status"]), (objective_id, "Research phase", "blocked"))
        same([task["name"] for task in plan["tasks"]], ["Search papers", "Summarize"])
        same([task["status"] for task in plan["tasks"]], ["pending", "pending"])
        same(plan["tasks"][1]["dependencies"], [plan["tasks"][0]["id"]])
        same((await self.call("plans/get", id=plan["id"], includeTasks=True))["plan"], plan)
        return plan

    async def hints_name_it(self):
        """Option C: one round trip gives the task and, beside it, the objective with the name that was asked for."""
        request = asking("opt", text=TEXT)
        request.message.metadata.update({"opt/v1/preferObjective": True, "opt/v1/suggestedName": "AI Safety Research"})
        task = await self.send(request)
        objective_id, plan_id, _ = linked(task)
        told = self.told()
        if (self.protocol, self.binding) == ("0.3", "HTTP+JSON"):
            # Readers of that form refuse fields that its proto file has not, so the task alone names the objective.
            same(list(told), ["task"])
            since = 0
        else:
            # The SDK passes over the field, which it does not know: it is there in the raw answer only.
            same(sorted(told), ["objective", "task"])
            beside = told["objective"]
            same((beside["id"], beside["name"]), (objective_id, "AI Safety Research"))
            assert beside["status"] in ("working", "completed"), beside
            same([plan["id"] for plan in beside["plans"]], [plan_id])
            same([step["name"] for step in beside["plans"][0]["tasks"]], STEPS)
            since = revision(beside) - 1
        tree = await self.completed(objective_id, since)
        same((tree["name"], tree["plans"][0]["id"]), ("AI Safety Research", plan_id))
        listed = await self.call("objectives/list", status="completed", pageSize=100)
        assert objective_id in [objective["id"] for objective in listed["objectives"]], listed

    async def reads_what_the_design_prints(self):
        """The request of the design, letter by letter: a name of 0.3, with parts that have a type and no kind."""
        message = asking("opt").message.message_id
        told = await self.call("message/send", message={
            "messageId": message, "role": "user", "parts": [{"type": "text", "text": TEXT}],
        })
        task, objective = told["task"], told["objective"]
        same(task["contextId"], objective["id"])
        same(task["metadata"], {
            "opt/v1/objectiveId": objective["id"], "opt/v1/planId": objective["plans"][0]["id"], "opt/v1/taskIndex": 0,
        })
        same(objective["name"], TEXT)
        same(task["history"][0]["parts"], [{"kind": "text", "text": TEXT}])

    async def metadata_activates_it(self):
        """Without the header, a message that names an objective is enough, for itself."""
        request = asking("opt", text="echo named in the message")
        request.message.metadata.update({"opt/v1/objective": {"name": "Named in the message"}})
        events = await drained(self.streaming.send_message(request))
        objective_id, _, _ = linked(events[0].task)
        same(events[0].task.context_id, objective_id)
        same((await self.completed(objective_id))["name"], "Named in the message")

    async def waits_for_news(self):
        made = await self.call("objectives/create", name="Nothing happens")
        await self.held_plan(made["id"])
        before = await self.tree(made["id"])
        same(before["status"], "blocked")
        same(await self.tree(made["id"], sinceRevision=revision(before), waitMs=50), before)
        waiting = asyncio.create_task(self.tree(made["id"], sinceRevision=revision(before), waitMs=WAIT_MS * 4))
        renamed = await self.call("objectives/update", id=made["id"], name="Something happened")
        same(renamed["name"], "Something happened")
        after = await waiting
        same((after["name"], revision(after)), ("Something happened", revision(before) + 1))

    async def subscribes(self):
        """The first event is the objective as it stands; the stream ends when the objective does."""
        made = await self.call("objectives/create", name="Watched")
        plan = await self.held_plan(made["id"])
        body = {"jsonrpc": "2.0", "id": 7, "method": "objectives/subscribe", "params": {"id": made["id"]}}
        events = []
        async with self.http.stream("POST", self.url, json=body, headers=self.headers(True)) as stream:
            same(stream.headers["content-type"].split(";")[0], "text/event-stream")
            async for line in stream.aiter_lines():
                if not line.startswith("data:"):
                    continue
                event = json.loads(line.removeprefix("data:"))
                same((event["jsonrpc"], event["id"]), ("2.0", 7))
                events.append(event["result"])
                if len(events) == 1:
                    await self.call("plans/update", id=plan["id"], status="working")
        first_seen = events[0]["objective"]
        same((first_seen["id"], first_seen["status"]), (made["id"], "blocked"))
        same([step["status"] for step in first_seen["plans"][0]["tasks"]], ["pending", "pending"])
        ended = [update["taskId"] for update in map(self.update_of, events) if update and self.is_completed(update)]
        tree = await self.tree(made["id"])
        same(tree["status"], "completed")
        same(ended, [step["a2aTaskId"] for step in tree["plans"][0]["tasks"]])
        news = self.update_of(events[-1])["metadata"]
        same(news["opt/v1/objective"], {"id": made["id"], "name": "Watched", "status": "completed"})
        same((news["opt/v1/plan"]["id"], news["opt/v1/plan"]["status"]), (plan["id"], "completed"))

    def update_of(self, event):
        """The status update that an event is, in the form of its version, or nothing."""
        if self.protocol == "0.3":
            return event if event.get("kind") == "status-update" else None
        return event.get("statusUpdate")

    def is_completed(self, update):
        return update["status"]["state"] == ("completed" if self.protocol == "0.3" else "TASK_STATE_COMPLETED")

    async def is_refused(self):
        nobody = "obj-0190a0b0-0000-7000-8000-000000000000"
        for method in ("objectives/get", "objectives/subscribe"):
            same((await self.call(method, id=nobody))["code"], NOT_FOUND)
        same((await self.call("plans/create", objectiveId=nobody, name="No"))["code"], NOT_FOUND)
        made = await self.call("objectives/create", name="Circles")
        cycle = [{"name": "a", "dependencies": ["task-1"]}, {"name": "b", "dependencies": ["task-0"]}]
        same((await self.call("plans/create", objectiveId=made["id"], name="No", tasks=cycle))["code"], -32602)
        same(revision(await self.tree(made["id"])), 1)

    def cases(self, card):
        yield "the card", self.declares_itself(card)
        yield "A: a message is planned", self.a_message_is_planned()
        yield "A: a stream", self.a_stream_tells_of_it()
        yield "A: not activated, tasks", self.without_it_tasks_are_plain()
        yield "A: not activated, methods", self.without_it_methods_are_refused()
        yield "B: a message into a new objective", self.a_message_into_a_new_objective()
        yield "B: a message beside a plan", self.a_message_beside_a_plan()
        yield "C: hints", self.hints_name_it()
        if (self.protocol, self.binding) == ("0.3", "JSONRPC"):
            yield "as the design prints it", self.reads_what_the_design_prints()
        yield "activated by a message", self.metadata_activates_it()
        yield "wait for news", self.waits_for_news()
        yield "subscribe", self.subscribes()
        yield "errors", self.is_refused()


async def is_there(openclaw, agent):
    """Returns when the agent is connected."""
    async with httpx.AsyncClient() as http:
        for _ in range(300):
            known = await http.get(f"{openclaw}/bus/agents/{agent}")
            if known.status_code == 200 and known.json()["sessions"] > 0:
                return
            await asyncio.sleep(0.1)
    raise TimeoutError(f"{agent} did not connect")


async def main(openclaw):
    program = pathlib.Path(__file__).with_name("python_agent.py")
    agent = subprocess.Popen([sys.executable, program, openclaw, "pia"])
    try:
        await is_there(openclaw, "pia")
        await tried(f"{openclaw}/agents/pia")
    finally:
        agent.terminate()
        agent.wait()


async def tried(url):
    cases = Cases(f"OPT with a2a-sdk {version('a2a-sdk')}")
    card = await card_of(url)
    for protocol in ("1.0", "0.3"):
        for binding in ("JSONRPC", "HTTP+JSON"):
            for name, case in Suite(card, protocol, binding, url).cases(card):
                await cases.run(f"{protocol} {binding} · {name}", case)
    cases.end()


asyncio.run(main(*sys.argv[1:]))
