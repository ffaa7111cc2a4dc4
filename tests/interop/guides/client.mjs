// Asks the agent at an A2A address something and prints what came of it.
//
//   npm install @a2a-js/sdk
//   node client.mjs http://127.0.0.1:7420 'who is here' [token]
import { randomUUID } from "node:crypto";
import { SendMessageRequest, taskStateToJSON } from "@a2a-js/sdk";
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } from "@a2a-js/sdk/client";

const [url, text, token] = process.argv.slice(2);
const headers = token ? { Authorization: `Bearer ${token}` } : {};
const fetchImpl = (input, init = {}) => fetch(input, { ...init, headers: { ...init.headers, ...headers } });

const factory = new ClientFactory({
  transports: [new JsonRpcTransportFactory({ fetchImpl })],
  cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
});
// The card is looked for below this address, which therefore ends in a slash.
const client = await factory.createFromUrl(url.endsWith("/") ? url : `${url}/`);
const message = { messageId: randomUUID(), role: "ROLE_USER", parts: [{ text }] };
const answer = await client.sendMessage(SendMessageRequest.fromJSON({ message }));
const words = (said) => said.parts.map((part) => part.content.value).join("");
// A task, or a plain message.
if (answer.status) console.log(taskStateToJSON(answer.status.state), words(answer.status.message));
else console.log(words(answer));
