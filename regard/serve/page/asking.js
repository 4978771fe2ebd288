// What the page asks of its own server, and what goes wrong in words. Addresses are relative to the page's.

const LEADS = {
  401: "A key is needed.", 403: "Not allowed.", 413: "Too much at once.", 429: "Too many requests.",
  503: "The server is going down.", 504: "It took too long.",
};

export class Problem extends Error {
  // wait: seconds after which it is worth asking again, 0 where something must change first.
  constructor(status, message, wait = 0) {
    super(message);
    this.status = status;
    this.lead = LEADS[status] || (status >= 500 ? "The server failed." : "This was not translated.");
    this.wait = wait;
    this.again = status === 429 || status >= 500;
  }
}

function unanswered() {
  const problem = new Problem(599, "It may have been stopped, or the network is gone.");
  problem.lead = "The server does not answer.";
  return problem;
}

async function send(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    throw error.name === "AbortError" ? error : unanswered();
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  throw new Problem(response.status, told.error || "", Number(response.headers.get("Retry-After")) || 0);
}

function post(path, content, key, signal) {
  const headers = { "Content-Type": "application/json" };
  if (key) headers.Authorization = "Bearer " + key;
  return send(path, { method: "POST", headers, body: JSON.stringify(content), signal });
}

// The models, the limits, and whether a key is needed.
export async function welcome() {
  const [told, settings] = await Promise.all(
    ["v1/models", "frontend/settings"].map(async (path) => (await send(path)).json()));
  return { models: told.models, limits: told.limits, keyed: settings.keyRequired };
}

// A text's sentences as they are ready: {before, source, translations}, and in the end {after}.
export async function* translations(request, key, signal) {
  const response = await post("v1/translate", { ...request, stream: true }, key, signal);
  let done = false;
  for await (const line of linesOf(response)) {
    const told = JSON.parse(line);
    if (told.error) throw new Problem(told.status, told.error);
    if (told.done) done = true;
    else yield told;
  }
  if (!done) throw unanswered();
}

async function* linesOf(response) {
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let rest = "";
  while (true) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      throw error.name === "AbortError" ? error : unanswered();
    }
    if (part.done) break;
    const lines = (rest + decoder.decode(part.value, { stream: true })).split("\n");
    rest = lines.pop();
    yield* lines;
  }
  if (rest) yield rest;
}

// The document that the viewer draws.
export async function attention(request, key, signal) {
  return (await post("v1/attention", request, key, signal)).json();
}

// A saved page that holds no document yet, as text.
export async function savedPage() {
  return (await send("page/viewer/saved.html")).text();
}
