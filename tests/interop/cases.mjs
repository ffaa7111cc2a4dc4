// What the suites for both versions of the JavaScript SDK share: running the cases one after the other,
// each with a deadline, and a webhook. It knows no SDK.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";

// Longer than anything takes here, the machine being busy included.
const PATIENCE = 30_000;

/** The cases of one suite, named after the package it is about. */
export class Cases {
  done = 0;
  failed = 0;

  constructor(folder) {
    const { name, version } = JSON.parse(readFileSync(new URL(`node_modules/${folder}/package.json`, import.meta.url)));
    this.suite = `${name} ${version}`;
  }

  /** Runs one; a failure is printed and counted, and the others go on. */
  async run(name, act) {
    this.done++;
    const stop = new AbortController();
    const late = pause(PATIENCE, undefined, { signal: stop.signal }).then(() => {
      throw new Error(`not done within ${PATIENCE} ms`);
    });
    try {
      await Promise.race([act(), late]);
      console.log(`ok   ${this.suite} · ${name}`);
    } catch (error) {
      this.failed++;
      console.log(`FAIL ${this.suite} · ${name}\n`, error);
    } finally {
      late.catch(() => {});
      stop.abort();
    }
  }

  /** Leaves with what the suite came to; open connections would keep it here. */
  end() {
    console.log(`${this.suite}: ${this.done - this.failed} of ${this.done} passed`);
    process.exit(this.failed > 0 || this.done === 0 ? 1 : 0);
  }
}

/** Everything of a stream. */
export async function all(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

/** Looks again and again until it is as wanted; the deadline is the case's own. */
export async function until(look, wanted) {
  for (;;) {
    const seen = await look();
    if (wanted(seen)) return seen;
    await pause(20);
  }
}

/** A webhook that keeps what is posted to it. */
export class Receiver {
  got = [];

  async open() {
    this.server = createServer(async (request, response) => {
      let body = "";
      for await (const chunk of request) body += chunk;
      this.got.push({ path: request.url, headers: request.headers, body: JSON.parse(body) });
      response.writeHead(204).end();
    });
    await new Promise((ready) => this.server.listen(0, "127.0.0.1", ready));
    return this;
  }

  url(name) {
    return `http://127.0.0.1:${this.server.address().port}/${name}`;
  }

  until(name, wanted) {
    const look = async () => this.got.find(({ path, body }) => path === `/${name}` && wanted(body));
    return until(look, (found) => found);
  }
}
