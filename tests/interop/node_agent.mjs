// An agent in Node (22 or later; 20 with --experimental-websocket), without any package: takes
// every task, says how it goes, answers it; resumes its session when the line breaks.
//
//   node node_agent.mjs http://127.0.0.1:7420 nora [token]
import { randomBytes } from "node:crypto";

const [url, agent, token] = process.argv.slice(2);
let session;

function uuid7() {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes[6] = 0x70 | (bytes[6] & 0x0f);
  bytes[8] = 0x80 | (bytes[8] & 0x3f);
  return bytes.toString("hex").replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5");
}

function answer(request, type, payload) {
  return {
    protocol: "openclaw.a2a.v1", messageId: uuid7(), correlationId: request.correlationId,
    timestamp: new Date().toISOString(), from: { agentId: agent },
    to: { agentId: request.from.agentId }, type, priority: "normal",
    payload: { taskId: request.payload.taskId, ...payload },
  };
}

function connect() {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const socket = new WebSocket(`${url.replace("http", "ws")}/bus/agents/${agent}/session`, { headers });
  const say = (frame) => socket.send(JSON.stringify(frame));
  socket.onopen = () =>
    say({ type: "hello", window: 4, graceSeconds: 30, ...(session && { resume: session, inHands: [] }) });
  socket.onmessage = ({ data }) => {
    const frame = JSON.parse(data);
    if (frame.type === "hello") session = frame.sessionId;
    if (["receipt", "error", "cancel"].includes(frame.type)) console.log(data);
    if (frame.type !== "deliver") return;
    const { message } = frame;
    if (message.type === "task_request") {
      const work = message.payload.title;
      const tell = (type, payload) => say({ type: "send", message: answer(message, type, payload) });
      tell("task_response", { action: "accepted" });
      tell("status_update", { status: "in_progress", progress: `looking at: ${work}` });
      tell("task_response", { action: "completed", result: { summary: `${agent} did: ${work}` } });
    }
    say({ type: "ack", messageId: message.messageId });
  };
  // Not every version says both when it cannot connect.
  let timer;
  const again = ({ code, reason }) => {
    if (!timer) console.log(`lost: ${code ?? "no connection"} ${reason ?? ""}; once more`);
    timer ??= setTimeout(connect, 1000);
  };
  socket.onerror = again;
  socket.onclose = again;
}

connect();
