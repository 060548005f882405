// Requests to the worker. Credentials are the browser's: it adds them by itself, and nothing here ever sees them.

const BASE = new URL(".", document.baseURI);
// Of an address with a login in it: the browser has it by now, and refuses to send such addresses for a page.
BASE.username = BASE.password = "";
const PATIENCE_MS = 20_000;

/** The worker's refusal, or that it did not answer (`status` 0). The message is one line for people. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** A path of segments, each percent-encoded once, with a query if there is one. */
export function path(segments, query = {}) {
  const asked = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined));
  const text = segments.map(encodeURIComponent).join("/");
  return asked.size ? `${text}?${asked}` : text;
}

/** The JSON of an answer, null if it has no body. Refused. */
export async function ask(method, where, body, signal) {
  const limit = AbortSignal.timeout(PATIENCE_MS);
  const request = {
    method,
    headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: signal ? AbortSignal.any([signal, limit]) : limit,
    // Configs may have passwords: no answer stays on the disk of whoever looks.
    cache: "no-store",
  };
  let answer;
  let text;
  try {
    answer = await fetch(new URL(where, BASE), request);
    text = await answer.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(0, "The worker does not answer");
  }
  const value = json(text);
  if (answer.ok) return value;
  throw new Refused(answer.status, told(answer, value));
}

export const get = (where, signal) => ask("GET", where, undefined, signal);

function json(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function told(answer, value) {
  if (answer.status === 401) return "The worker wants a login: load this page again";
  return value?.message ?? `The worker answered ${answer.status} ${answer.statusText}`;
}
