// The OpenAPI document for readers: each route, what it takes and what it answers.
const { html } = AttentionElements;
const main = document.getElementById("routes");

const api = await (await fetch("openapi.json")).json();
for (const [path, methods] of Object.entries(api.paths)) {
  for (const [method, route] of Object.entries(methods)) main.append(section(method.toUpperCase(), path, route));
}
document.body.dataset.ready = "true";

function section(method, path, route) {
  const shape = schemaOf(route.requestBody);
  return html("section", { class: "panel route" }, null, [
    html("h2", {}, null, [html("span", { class: "method" }, method), " ", html("code", {}, path)]),
    html("p", {}, null, marked(route.description || route.summary || "")),
    ...(shape ? fields("It takes", shape) : []),
    ...answers(route.responses),
  ]);
}

function answers(responses) {
  const ok = schemaOf(responses["200"]);
  const others = Object.keys(responses).filter((status) => status !== "200");
  const told = others.length ? [html("p", { class: "statuses" }, "Otherwise: " + others.join(", ") + ", each with a sentence that says what to change.")] : [];
  return [...(ok?.properties ? fields("It answers", ok) : []), ...told];
}

// A table of the fields of an object; what they hold in turn has a table of its own below it, behind a summary.
function fields(title, shape) {
  const inner = new Map();  // objects in it, by their names
  const rows = Object.entries(shape.properties || {}).map(([name, field]) => {
    const needed = (shape.required || []).includes(name) ? "always" : "default" in field ? JSON.stringify(field.default) : "";
    return html("tr", {}, null, [
      html("th", { scope: "row" }, null, [html("code", {}, name)]),
      html("td", {}, null, [kind(field, inner)]), html("td", {}, needed), html("td", {}, field.description || ""),
    ]);
  });
  if (!rows.length) return [];
  const head = ["field", "type", "there, or by default", "meaning"].map((name) => html("th", { scope: "col" }, name));
  const table = html("table", {}, null, [html("caption", {}, title), html("thead", {}, null, [html("tr", {}, null, head)]), html("tbody", {}, null, rows)]);
  const below = [...inner].map(([name, one]) => html("details", {}, null, [html("summary", {}, name), ...fields(name, one)]));
  return [html("div", { class: "wide", tabindex: "0", role: "region", "aria-label": title }, null, [table]), ...below];
}

function kind(field, inner) {
  const shape = resolved(field);
  if (shape.properties) {
    const name = shape.title || "object";
    inner.set(name, shape);
    return html("span", {}, name);
  }
  if (shape.anyOf) {
    const some = shape.anyOf.filter((one) => one.type !== "null");
    return html("span", {}, null, separated(some.map((one) => kind(one, inner)), " or "));
  }
  if (shape.type === "array" && shape.items) return html("span", {}, null, ["list of ", kind(shape.items, inner)]);
  return html("span", {}, shape.enum ? shape.enum.map((one) => JSON.stringify(one)).join(", ") : shape.type || "anything");
}

// `code` between backticks.
function marked(text) {
  return text.split("`").map((part, i) => (i % 2 ? html("code", {}, part) : part));
}

function separated(parts, between) {
  return parts.flatMap((part, i) => (i ? [between, part] : [part]));
}

function schemaOf(body) {
  const schema = body?.content?.["application/json"]?.schema;
  return schema ? resolved(schema) : null;
}

function resolved(schema) {
  return schema.$ref ? api.components.schemas[schema.$ref.split("/").pop()] : schema;
}
