"use strict";
// What is shown, in words and in numbers, for those who do not see the drawing or want more of it.
const AttentionTelling = (() => {

const { html } = AttentionElements;
const { three } = AttentionDrawings;
const SOME = 4;  // keys named for a query

const token = (text) => html("bdi", {}, text);
const number = (value) => html("b", {}, three(value));

// A cell, a row or a column of a matrix as the parts of a sentence.
function tellMatrix({ rows, columns, weights, K }, q, k) {
  if (q === null && k === null) return [];
  if (q !== null && k !== null) {
    return [token(rows.items[q]), " looks at ", token(columns.items[k]), " with weight ", number(weights[q * K + k])];
  }
  const line = q !== null
    ? columns.items.map((text, i) => ({ text, weight: weights[q * K + i] }))
    : rows.items.map((text, i) => ({ text, weight: weights[i * K + k] }));
  const looked = line.filter((one) => one.weight > 0).sort((a, b) => b.weight - a.weight);
  const [one, verb] = q !== null ? [rows.items[q], " looks at "] : [columns.items[k], " is looked at by "];
  if (!looked.length) return [token(one), verb, "nothing"];
  const told = looked.slice(0, SOME).flatMap(({ text, weight }, i) => [i ? ", " : "", token(text), " ", number(weight)]);
  return [token(one), verb, ...told, looked.length > SOME ? ", \u2026" : ""];
}

function tellStep(step) {
  return ["Chosen: ", token(step.token), " with probability ", number(step.probability)];
}

function tellMeasures(map, head) {
  if (head === "mean" || !map || head >= map.H) return [];
  const far = map.distance ? ", distance " + map.distance[head].toFixed(2) : "";
  return [[map.layer, "head " + head].filter(Boolean).join(", ") + ": entropy " + map.entropy[head].toFixed(2) + " bits" + far];
}

// Tables: {columns: names, rows: [name, numbers]}.
function matrixCells({ rows, columns, weights, K }) {
  const line = (q) => Array.from(weights.subarray(q * K, (q + 1) * K), three);
  return { columns: columns.items, rows: rows.items.map((item, q) => [item, line(q)]) };
}

function stepCells(step) {
  return { columns: ["probability"], rows: step.alternatives.map(([text, value]) => [text, [three(value)]]) };
}

function measureCells(group) {
  const rows = group.maps.flatMap((map) => ["entropy", "distance"].filter((name) => map[name])
    .map((name) => [(map.layer || map.name) + ", " + name, map[name].map((value) => value.toFixed(2))]));
  const H = Math.max(...group.maps.map((map) => map.H));
  return { columns: Array.from({ length: H }, (_, head) => "head " + head), rows };
}

function table({ columns, rows }) {
  const head = html("tr", {}, null, [html("td"), ...columns.map((text) => html("th", { scope: "col", dir: "auto" }, text))]);
  const body = rows.map(([name, values]) => html("tr", {}, null, [
    html("th", { scope: "row", dir: "auto" }, name), ...values.map((value) => html("td", {}, value)),
  ]));
  const made = html("table", {}, null, [html("thead", {}, null, [head]), html("tbody", {}, null, body)]);
  return html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of numbers" }, null, [made]);
}

return { tellMatrix, tellStep, tellMeasures, matrixCells, stepCells, measureCells, table };
})();
