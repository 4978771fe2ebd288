"use strict";
// The page asks its own server alone: /v1/models for the language pairs, /v1/translate for a translation.

const form = document.getElementById("form");
const pair = document.getElementById("pair");
const text = document.getElementById("text");
const key = document.getElementById("key");
const result = document.getElementById("result");
const names = new Intl.DisplayNames([document.documentElement.lang], { type: "language", fallback: "code" });
let latest = 0;

function named(code) {
  try {
    return names.of(code);
  } catch {
    return code;
  }
}

function show(message, wrong) {
  result.textContent = message;
  result.classList.toggle("error", wrong);
}

async function begin() {
  const [models, settings] = await Promise.all(
    ["v1/models", "frontend/settings"].map(async (path) => (await fetch(path)).json()),
  );
  for (const model of models.models) {
    pair.add(new Option(`${named(model.source)} – ${named(model.target)} (${model.name})`, model.name));
  }
  text.maxLength = models.limits.characters;
  document.getElementById("key-row").hidden = !settings.keyRequired;
}

async function translate(event) {
  event.preventDefault();
  const turn = ++latest;
  show("…", false);
  const headers = { "Content-Type": "application/json" };
  if (key.value) headers.Authorization = `Bearer ${key.value}`;
  const body = JSON.stringify({ text: text.value, model: pair.value });
  try {
    const response = await fetch("v1/translate", { method: "POST", headers, body });
    const answer = await response.json();
    if (turn !== latest) return; // a later one is on its way
    show(response.ok ? answer.translations[0].text : answer.error, !response.ok);
  } catch {
    if (turn === latest) show("The server does not answer.", true);
  }
}

form.addEventListener("submit", translate);
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
begin().catch(() => show("The server does not answer.", true));
