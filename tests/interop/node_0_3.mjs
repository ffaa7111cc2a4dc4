// The last JavaScript SDK of 0.3 against the server, over both bindings.
//
//   node node_0_3.mjs URL-OF-THE-CONFORMANCE-AGENT URL-OF-THE-DEFAULT-AGENT URL-THAT-WANTS-A-TOKEN THE-TOKEN
import { strict as assert } from "node:assert";
import { randomUUID } from "node:crypto";
import {
  ClientFactory, DefaultAgentCardResolver, JsonRpcTransport, JsonRpcTransportFactory, RestTransport, RestTransportFactory,
  TaskNotCancelableError, TaskNotFoundError, createAuthenticatingFetchWithRetry,
} from "a2a-js-sdk-0.3/client";
import { Cases, Receiver, all, until } from "./cases.mjs";

const NOBODY = "0190a0b0-0000-7000-8000-000000000000";

/** What happened, in a word or two. */
function word(event) {
  if (event.kind === "task") return `task ${event.status.state}`;
  if (event.kind === "status-update") return event.status.state + (event.final ? "!" : "");
  if (event.kind === "artifact-update") return `artifact${event.append ? "+" : ""}${event.lastChunk ? "." : ""}`;
  return event.kind;
}

/** A request that asks the conformance agent for a behaviour by the id of its message. */
function asking(prefix, { configuration, words = "go", more = [], ...fields } = {}) {
  const parts = [{ kind: "text", text: words }, ...more];
  const message = { kind: "message", messageId: `${prefix}-${randomUUID()}`, role: "user", parts, ...fields };
  return { message, ...(configuration && { configuration }) };
}

/** All cases over one binding. */
class Suite {
  constructor(client, binding, receiver) {
    Object.assign(this, { client, receiver, drops: binding === "HTTP+JSON" });
  }

  async task(prefix, how) {
    const task = await this.client.sendMessage(asking(prefix, how));
    assert.equal(task.kind, "task");
    return task;
  }

  async begun(prefix) {
    const { id } = await this.task(prefix, { configuration: { blocking: false } });
    return until(() => this.client.getTask({ id }), (seen) => seen.status.state === "working");
  }

  "send and wait" = async () => {
    const task = await this.task("tck-complete-task");
    assert.equal(task.status.state, "completed");
    assert.equal(task.status.message.parts[0].text, "Hello from TCK");
    assert.ok(task.contextId);
  };

  "send without waiting" = async () => {
    const task = await this.task("tck-cancel", { configuration: { blocking: false } });
    assert.ok(["submitted", "working"].includes(task.status.state), task.status.state);
    await this.client.cancelTask({ id: task.id });
  };

  "a plain message" = async () => {
    const message = await this.client.sendMessage(asking("tck-message-response"));
    assert.deepEqual([message.kind, message.parts[0].text], ["message", "Direct message response"]);
  };

  artifacts = async () => {
    const part = async (prefix) => (await this.task(prefix)).artifacts[0].parts[0];
    assert.equal((await part("tck-artifact-text")).text, "Generated text content");
    assert.deepEqual((await part("tck-artifact-data")).data, { key: "value", count: 42 });
    assert.equal((await part("tck-artifact-file-url")).file.uri, "https://example.com/output.txt");
    assert.equal(atob((await part("tck-artifact-file")).file.bytes), "tck");
  };

  parts = async () => {
    const bytes = Buffer.from([0, 255, 32, 98]).toString("base64");
    const more = [
      { kind: "file", file: { bytes, mimeType: "application/octet-stream" } },
      { kind: "file", file: { uri: "https://example.com/a.txt", mimeType: "text/plain" } },
      { kind: "data", data: { answer: 42 } },
    ];
    const { id } = await this.task("tck-complete-task", { more });
    const kept = (await this.client.getTask({ id })).history[0].parts.slice(1);
    assert.deepEqual(kept, more);
  };

  stream = async () => {
    const events = await all(this.client.sendMessageStream(asking("tck-stream-001")));
    const words = events.map(word);
    assert.ok(["task submitted", "task working"].includes(words[0]), words.join());
    assert.deepEqual(words.slice(-2), ["artifact.", "completed!"]);
    const task = await this.client.getTask({ id: events[0].id });
    assert.equal(task.artifacts[0].parts[0].text, "Stream hello from TCK");
  };

  "stream in pieces" = async () => {
    const events = await all(this.client.sendMessageStream(asking("tck-stream-artifact-chunked")));
    const pieces = events.map(word).filter((word) => word.startsWith("artifact"));
    // Over HTTP+JSON the SDK does not read `append`, which is there.
    assert.deepEqual(pieces, ["artifact", this.drops ? "artifact." : "artifact+."]);
    const task = await this.client.getTask({ id: events[0].id });
    assert.equal(task.artifacts[0].parts.map(({ text }) => text).join(""), "chunk-1 chunk-2");
  };

  "stream of a plain message" = async () => {
    const events = await all(this.client.sendMessageStream(asking("tck-message-response")));
    assert.deepEqual(events.map(word), ["message"]);
  };

  get = async () => {
    const { id } = await this.task("tck-complete-task", { words: "remember me" });
    const task = await this.client.getTask({ id });
    assert.deepEqual([task.id, task.status.state], [id, "completed"]);
    assert.equal(task.history[0].parts[0].text, "remember me");
    assert.equal((await this.client.getTask({ id, historyLength: 0 })).history?.length ?? 0, 0);
  };

  "input required" = async () => {
    const { id: taskId, contextId, status } = await this.task("tck-input-required");
    assert.equal(status.state, "input-required");
    const done = await this.task("tck-complete-task", { taskId, contextId });
    assert.deepEqual([done.id, done.status.state], [taskId, "completed"]);
  };

  "resubscribe, cancel" = async () => {
    const { id } = await this.begun("tck-cancel");
    const events = this.client.resubscribeTask({ id });
    assert.equal(word((await events.next()).value), "task working");
    assert.equal((await this.client.cancelTask({ id })).status.state, "canceled");
    assert.equal(word((await all(events)).at(-1)), "canceled!");
    assert.equal((await this.client.getTask({ id })).status.state, "canceled");
  };

  "resubscribe to the end" = async () => {
    const { id } = await this.begun("test-resubscribe-message-id");
    const words = (await all(this.client.resubscribeTask({ id }))).map(word);
    assert.deepEqual([words[0], words.at(-1)], ["task working", "completed!"]);
  };

  webhook = async () => {
    const { id } = await this.begun("tck-cancel");
    const [name, key] = [randomUUID(), { id, pushNotificationConfigId: "mine" }];
    const url = this.receiver.url(name);
    const authentication = { schemes: ["Bearer"], credentials: "a-secret" };
    const pushNotificationConfig = { id: "mine", url, token: "a-token", authentication };
    const made = await this.client.setTaskPushNotificationConfig({ taskId: id, pushNotificationConfig });
    assert.deepEqual([made.taskId, made.pushNotificationConfig.id], [id, "mine"]);
    const got = await this.client.getTaskPushNotificationConfig(key);
    assert.equal(got.pushNotificationConfig.url, url);
    const listed = await this.client.listTaskPushNotificationConfig({ id });
    assert.deepEqual(listed.map((config) => config.pushNotificationConfig.id), ["mine"]);
    await this.client.cancelTask({ id });
    const { headers } = await this.receiver.until(name, ({ kind, status }) => kind === "task" && status.state === "canceled");
    assert.equal(headers["x-a2a-notification-token"], "a-token");
    assert.equal(headers.authorization, "Bearer a-secret");
    assert.equal(headers["content-type"], "application/json");
    await this.client.deleteTaskPushNotificationConfig(key);
    assert.equal((await this.client.listTaskPushNotificationConfig({ id })).length, 0);
  };

  "webhook of a message" = async () => {
    const name = randomUUID();
    const pushNotificationConfig = { id: "with-it", url: this.receiver.url(name) };
    await this.task("tck-complete-task", { configuration: { blocking: true, pushNotificationConfig } });
    await this.receiver.until(name, ({ status }) => status.state === "completed");
  };

  errors = async () => {
    await assert.rejects(this.client.getTask({ id: NOBODY }), TaskNotFoundError);
    await assert.rejects(this.client.cancelTask({ id: NOBODY }), TaskNotFoundError);
    const { id } = await this.task("tck-complete-task");
    await assert.rejects(this.client.cancelTask({ id }), TaskNotCancelableError);
  };
}

const NAMES = [
  "send and wait", "send without waiting", "a plain message", "artifacts", "parts", "stream", "stream in pieces",
  "stream of a plain message", "get", "input required", "resubscribe, cancel", "resubscribe to the end", "webhook",
  "webhook of a message", "errors",
];

async function connect(url, binding, fetchImpl = fetch) {
  const Factory = binding === "JSONRPC" ? JsonRpcTransportFactory : RestTransportFactory;
  const factory = new ClientFactory({ transports: [new Factory({ fetchImpl })] });
  const client = await factory.createFromUrl(url);
  assert.ok(client.transport instanceof (binding === "JSONRPC" ? JsonRpcTransport : RestTransport));
  return client;
}

async function readsTheCard(url) {
  const card = await new DefaultAgentCardResolver().resolve(url);
  assert.deepEqual([card.protocolVersion, card.preferredTransport], ["0.3.0", "JSONRPC"]);
  assert.ok(card.capabilities.streaming && card.capabilities.pushNotifications);
}

/** What somebody tries first: the address, nothing else. */
async function firstConversation(url) {
  const client = await new ClientFactory().createFromUrl(url);
  const events = await all(client.sendMessageStream(asking("hello", { words: "echo hello there" })));
  assert.equal(word(events.at(-1)), "completed!");
  assert.equal(events.at(-1).status.message.parts[0].text, "hello there");
}

/** The SDK shows its token once it was asked for one. */
async function showsAToken(url, token, binding) {
  const stranger = await connect(url, binding);
  await assert.rejects(stranger.sendMessage(asking("tck-complete-task")), /401/);
  const withToken = createAuthenticatingFetchWithRetry(fetch, {
    headers: async () => ({}),
    shouldRetryWithHeaders: async (_, { status }) => (status === 401 ? { Authorization: `Bearer ${token}` } : undefined),
  });
  const client = await connect(url, binding, withToken);
  assert.equal((await client.sendMessage(asking("tck-complete-task"))).status.state, "completed");
  const extended = await client.getAgentCard();
  assert.deepEqual([extended.securitySchemes.bearer.type, extended.securitySchemes.bearer.scheme], ["http", "Bearer"]);
}

const [conformance, openclaw, secured, token] = process.argv.slice(2);
const cases = new Cases("a2a-js-sdk-0.3");
await cases.run("card", () => readsTheCard(openclaw));
await cases.run("first conversation", () => firstConversation(openclaw));
const receiver = await new Receiver().open();
for (const binding of ["JSONRPC", "HTTP+JSON"]) {
  const suite = new Suite(await connect(conformance, binding), binding, receiver);
  for (const name of NAMES) await cases.run(`0.3 ${binding} · ${name}`, suite[name]);
  await cases.run(`0.3 ${binding} · token`, () => showsAToken(secured, token, binding));
}
cases.end();
