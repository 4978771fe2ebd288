// The page: what is typed is translated, what is translated is looked into. It asks its own server alone.
import { Problem, translations, welcome } from "./asking.js";
import { Inside } from "./inside.js";
import { Result } from "./result.js";
import { Ways, lookOf } from "./ways.js";

const { html } = AttentionElements;
const at = (id) => document.getElementById(id);
const text = at("text"), pair = at("pair"), output = at("output"), key = at("key");
const MOST_WAYS = 4;  // translations of a sentence
const PAUSE = 250;  // milliseconds without typing, after which a short text is translated; a long one waits longer
const SPOKEN = 700;  // milliseconds after which a translation is read out: not each of those on the way to it

const KEYS = [401, 403, 429];  // another key may help
let server = { models: [], limits: {}, keyed: false };
let asking = null;  // the request that is on its way
let typing = 0, speaking = 0, trying = 0;  // what is to happen in a while

const result = new Result({ output, behind: at("behind"), reading: at("reading"), turned });
const ways = new Ways({
  section: at("ways"), name: at("ways-name"), source: at("ways-source"), choices: at("choices"),
  chosen: (number) => { result.choose(number); if (inside.opened) look(); },
});
const inside = new Inside({
  section: at("inside"), root: at("viewer"), button: at("look"), old: at("inside-old"),
  tell: (problem) => show(at("inside-problem"), problem, look),
});

// ---- the models ----

const model = () => server.models.find((one) => one.name === pair.value);

function fillModels() {
  const title = (one) => one.source_name + " \u2192 " + one.target_name;
  const titles = server.models.map(title);
  for (const one of server.models) {
    const several = titles.filter((other) => other === title(one)).length > 1;
    pair.add(new Option(several ? title(one) + " \u00b7 " + one.name : title(one), one.name));
  }
  pair.hidden = server.models.length < 2;
}

function reversed() {
  const { source, target } = model();
  return server.models.find((one) => one.source === target && one.target === source);
}

function turnModel() {
  const { name, source, target, source_name, target_name, engine, alignments } = model();
  at("source-name").textContent = source_name;
  at("target-name").textContent = target_name;
  text.lang = source;
  output.lang = at("choices").lang = target;
  at("swap").hidden = !reversed();
  at("model").textContent = "Model " + name + ", searched by " + engine +
    (alignments ? "." : ", which does not tell what it looks at.");
  translate();
}

function swap() {
  const said = result.translation;
  pair.value = reversed().name;
  text.value = said;
  turnModel();
  text.focus();
}

// ---- translating ----

function typed(event) {
  if (event.isComposing) return;
  result.write(text.value);
  at("ways").inert = true;  // they are of another text
  inside.follow(null);
  count();
  clearTimeout(typing);
  typing = setTimeout(translate, PAUSE + text.value.length / 10);
}

function count() {
  const length = Array.from(text.value).length, most = server.limits.characters || Infinity;
  at("count").textContent = length && most < Infinity ? length.toLocaleString("en") + " / " + most.toLocaleString("en") : "";
  at("count").classList.toggle("over", length > most);
  at("clear").hidden = !length;
  return length - most;
}

async function translate() {
  for (const timer of [typing, speaking, trying]) clearTimeout(timer);
  asking?.abort();
  const mine = asking = new AbortController();
  show(at("problem"), null);
  const over = count();
  if (!text.value.trim() || !model()) {
    result.clear(text.value);
    rest();
    return;
  }
  result.begin(text.value);
  at("ways").inert = true;
  inside.follow(null);
  output.setAttribute("aria-busy", "true");
  at("state").textContent = "Translating\u2026";
  try {
    if (over > 0) throw tooLong(over);
    if (server.keyed && !key.value) throw new Problem(401, "Enter yours above the text.");
    for await (const line of translations(request(), key.value, mine.signal)) {
      if (mine.signal.aborted) return;
      result.add(line);
    }
    result.end(text.selectionEnd);
    settleKey();
    say();
  } catch (problem) {
    if (mine.signal.aborted) return;
    if (!(problem instanceof Problem)) throw problem;
    turned();
    failed(problem);
  } finally {
    if (mine === asking) rest();
  }
}

function request() {
  const { name, n_best, alignments } = model();
  const most = Math.min(MOST_WAYS, n_best, server.limits.n_best);  // of more the first might be another
  return { text: text.value, model: name, n_best: most, scores: true, alignments };
}

function tooLong(over) {
  const most = server.limits.characters.toLocaleString("en");
  const change = "shorten the text by " + over.toLocaleString("en") + ".";
  return new Problem(413, "At most " + most + " characters are translated here: " + change);
}

// No request is on its way.
function rest() {
  output.removeAttribute("aria-busy");
  at("copy").hidden = !result.sentences.length;
  at("state").textContent = result.sentences.some((one) => one.cut)
    ? "The end of a sentence is missing: it is longer than the model reads." : "";
}

// A key that works is out of the way.
function settleKey() {
  if (at("key-form").contains(document.activeElement)) text.focus();
  at("key-form").hidden = true;
}

// A screen reader is told the translation once it stands.
function say() {
  speaking = setTimeout(() => { at("spoken").textContent = result.translation; }, SPOKEN);
}

// ---- what goes wrong ----

function failed(problem) {
  if (problem.wait) trying = setTimeout(translate, 1000 * problem.wait);
  show(at("problem"), problem, translate, problem.wait);
  if (server.keyed && KEYS.includes(problem.status)) at("key-form").hidden = false;
}

// wait: the seconds after which it is tried again by itself
function show(place, problem, again, wait = 0) {
  place.hidden = !problem;
  place.replaceChildren();
  if (!problem) return;
  const later = wait ? " It is tried again in " + wait + (wait === 1 ? " second." : " seconds.") : "";
  place.append(html("p", {}, null, [html("strong", {}, problem.lead || "This page failed."), " " + problem.message + later]));
  if (!problem.again) return;
  const button = html("button", { type: "button" }, "Try again");
  button.addEventListener("click", again);
  place.append(button);
}

// ---- looking ----

function turned() {
  ways.draw(result);
  at("ways").inert = !result.finished;
  at("look").hidden = at("hint").hidden = !result.sentence || !model().alignments;
  limitLooks();
  if (at("look").hidden || at("look").disabled) inside.close();
  else inside.follow(lookOf(result.sentence, pair.value));
}

// A sentence may be longer than what can be looked into.
function limitLooks() {
  const length = Array.from(result.sentence?.source || "").length, most = server.limits.attention_characters;
  const over = length > most && !at("look").hidden;
  at("look").disabled = over;
  at("look-limit").hidden = !over;
  at("look-limit").textContent = over ? "Up to " + most.toLocaleString("en") +
    " characters can be looked into, and this sentence has " + length.toLocaleString("en") + ": shorten it." : "";
}

function look() {
  if (result.sentence) return inside.open(lookOf(result.sentence, pair.value), key.value);
}

async function openInside() {
  await look();
  at("inside-name").focus();
  at("inside").scrollIntoView({ block: "start" });
}

async function copy() {
  try {
    await navigator.clipboard.writeText(result.translation);
  } catch {  // only pages of secure origins may
    getSelection().selectAllChildren(output);
    document.execCommand("copy");
  }
  at("state").textContent = "Copied.";
}

// ---- the page begins ----

const MOVES = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];

text.addEventListener("input", typed);
text.addEventListener("compositionend", typed);
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
});
text.addEventListener("keyup", (event) => {
  if (MOVES.includes(event.key)) result.pointFrom(text.selectionEnd);
});
text.addEventListener("click", () => result.pointFrom(text.selectionEnd));
text.addEventListener("pointermove", (event) => {
  if (event.pointerType === "mouse") result.pointUnder(event.clientX, event.clientY);
});
text.addEventListener("pointerleave", (event) => {
  if (event.pointerType === "mouse") result.point(null);
});
text.addEventListener("blur", () => result.point(null));
pair.addEventListener("change", turnModel);
at("swap").addEventListener("click", swap);
at("clear").addEventListener("click", () => { text.value = ""; translate(); text.focus(); });
at("copy").addEventListener("click", copy);
at("look").addEventListener("click", openInside);
at("close").addEventListener("click", () => { inside.close(); at("look").focus(); });
at("key-form").addEventListener("submit", (event) => { event.preventDefault(); translate(); });

async function begin() {
  try {
    server = await welcome();
  } catch (problem) {
    show(at("problem"), problem, begin);
    return;
  }
  show(at("problem"), null);
  at("key-form").hidden = !server.keyed;
  fillModels();
  turnModel();
  document.body.dataset.ready = "true";
}
begin();
