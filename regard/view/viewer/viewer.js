"use strict";
// The viewer: what is chosen, the controls that choose it, and the view of it.
// AttentionViewer.open(element, document) needs an empty element, the style sheet and the scripts before this one.
// Options: `page`, which gives the text of a saved page; `state`, where the reader was; `embedded`, for a page that has a heading
// and a theme of its own. The viewer that is opened has `state`, and `close`, after which its element may hold another.
const AttentionViewer = (() => {

const { html } = AttentionElements;
const { compose, themeOf, shorten, three, clamp } = AttentionDrawings;
const { VIEWS, titleOf } = AttentionViews;
const { tellMatrix, tellMeasures, matrixCells, table } = AttentionTelling;
const LONG_TEXT = 500;  // characters
const STAGE_KEYS = "Arrow keys move, Page Up and Page Down change the layer, square brackets the head, Escape lets go.";

function option(value, text) {
  return html("option", { value }, text);
}

function choice(options = []) {
  return html("select", {}, null, options);
}

function called(example, content) {
  return shorten(example.source || example.target || content.title, 60);
}

class Viewer {
  constructor(root, content, { page = null, state = {}, embedded = false }) {
    this.root = root;
    this.page = page;
    this.embedded = embedded;
    this.closing = new AbortController();
    this.data = new AttentionData.Document(content);
    this.state = {
      example: 0, view: "matrix", group: null, layer: -1, head: "mean", scale: "own", threshold: 0.02, step: 0, theme: "auto",
      ...state,
    };
    this.pointed = { q: null, k: null };
    this.build(content);
    this.ready = this.openExample();
  }

  // ---- the frame: made once ----

  build(content) {
    this.root.classList.add("attention-viewer");
    this.problem = html("p", { class: "problem", role: "alert", hidden: "" });
    this.told = html("dl");
    const texts = html("div", { class: "texts", role: "region", "aria-label": "Source and target" }, null, [this.told]);
    this.controls = {
      example: choice(content.examples.map((one, i) => option(i, (i + 1) + ". " + called(one, content)))),
      group: choice(),
      layer: choice(),
      head: choice(),
      scale: choice([option("own", "0 to the largest"), option("full", "0 to 1")]),
      threshold: html("input", { type: "range", min: 0, max: 0.5, step: 0.01 }),
      theme: choice([option("auto", "as the system"), option("light", "light"), option("dark", "dark")]),
    };
    const bar = html("div", { class: "controls", role: "group", "aria-label": "What is shown" });
    this.labels = {};
    const spoken = content.examples.some((one) => one.source);
    const names = {
      example: spoken ? "Sentence" : "Example", group: "Attention", layer: "Layer", head: "Head", scale: "Colour",
      threshold: "Hide below", theme: "Theme",
    };
    for (const [name, control] of Object.entries(this.controls)) {
      this.labels[name] = html("label", {}, null, [html("span", {}, names[name]), control]);
      this.labels[name].dataset.control = name;
      control.addEventListener(name === "threshold" ? "input" : "change", () => this.change(name, control.value));
      bar.append(this.labels[name]);
    }
    this.least = html("output", { class: "least" });
    this.labels.threshold.append(this.least);
    this.labels.example.hidden = content.examples.length < 2;
    this.labels.theme.hidden = this.embedded;

    this.tabs = html("div", { class: "tabs", role: "tablist", "aria-label": "Views" });
    for (const [view, { name }] of Object.entries(VIEWS)) {
      const tab = html("button", { type: "button", role: "tab", id: "tab-" + view, "aria-controls": "shown" }, name);
      tab.dataset.view = view;
      tab.addEventListener("click", () => this.change("view", view));
      this.tabs.append(tab);
    }
    this.tabs.addEventListener("keydown", (event) => this.walkTabs(event));

    this.chosen = html("h2", { class: "chosen" });
    this.path = html("p", { class: "path" });
    this.legend = html("p", { class: "legend" });
    this.stepper = this.buildStepper();
    this.stage = html("div", { class: "stage", tabindex: "0", role: "application", "aria-label": "Drawing. " + STAGE_KEYS });
    this.stage.addEventListener("keydown", (event) => this.keyOnStage(event));
    this.overview = new AttentionOverview.Overview((...head) => this.openHead(...head));
    this.reading = html("p", { class: "reading", role: "status" });
    this.numbers = html("details", { class: "numbers" }, null, [html("summary", {}, "These numbers as a table")]);
    this.numbers.addEventListener("toggle", () => this.drawTable());
    const save = html("div", { class: "save", role: "group", "aria-label": "Save" }, null, [html("span", {}, "Save")]);
    for (const [kind, title] of [["svg", "SVG"], ["png", "PNG"], ["html", "HTML"]]) {
      if (kind === "html" && !this.page) continue;
      const button = html("button", { type: "button", "data-save": kind, "aria-label": "Save as " + title }, title);
      button.addEventListener("click", () => this.guard(() => this.save(kind)));
      save.append(button);
    }
    const shown = html("section", { class: "shown", id: "shown", role: "tabpanel" }, null, [
      html("div", { class: "bar" }, null, [html("div", {}, null, [this.chosen, this.path]), save]),
      this.legend, this.stepper, this.overview.element, this.stage, this.reading, this.numbers,
    ]);
    this.shown = shown;
    this.root.replaceChildren(this.problem, texts, bar, this.tabs, shown, this.footer(content));
    if (!this.embedded) this.root.prepend(html("h1", { dir: "auto" }, content.title || "Attention"));

    this.dark = window.matchMedia("(prefers-color-scheme: dark)");
    this.dark.addEventListener("change", () => this.draw(), { signal: this.closing.signal });
    let waiting = 0;
    window.addEventListener("resize", () => {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(() => this.draw());
    }, { signal: this.closing.signal });
  }

  close() {
    this.closing.abort();
    this.root.replaceChildren();
    for (const name of ["ready", "error", "example"]) delete this.root.dataset[name];
  }

  footer(content) {
    return html("div", { class: "footer" }, null, [
      "Weights are stored in 8 bits, as whole numbers from 0 to " + content.levels + ": each is within 1/" +
        2 * content.levels + " of the model's own, less than 0.002. Entropy, distance and rollout were taken of the " +
        "model's own weights, means over heads are of the stored ones.",
      "Each row of weights sums to one; a row of zeros may look at nothing. " +
        "Layers and heads are counted from 0, as in the code.",
      ...(this.embedded ? [] : ["This page asks the network for nothing."]),
    ].map((line) => html("p", {}, line)));
  }

  buildStepper() {
    const go = (by) => () => this.change("step", this.state.step + by);
    this.previous = html("button", { type: "button", "data-step": "previous" }, "Previous token");
    this.next = html("button", { type: "button", "data-step": "next" }, "Next token");
    this.previous.addEventListener("click", go(-1));
    this.next.addEventListener("click", go(1));
    this.slider = html("input", { type: "range", min: 0, step: 1, "aria-label": "Step" });
    this.slider.addEventListener("input", () => this.change("step", Number(this.slider.value)));
    this.output = html("ol", { class: "output", "aria-label": "The output; a token goes to its step" });
    return html("div", { class: "stepper" }, null, [
      html("div", { class: "steps" }, null, [this.previous, this.slider, this.next]), this.output,
    ]);
  }

  // ---- what is chosen ----

  guard(work) {
    return Promise.resolve().then(work).catch((error) => {
      this.root.dataset.error = error.message;
      this.problem.textContent = "This could not be drawn: " + error.message;
      this.problem.hidden = false;
    });
  }

  async openExample() {
    await this.guard(async () => {
      const examples = this.data.content.examples;
      if (!examples.length) throw new Error("the document holds no example");
      this.state.example = clamp(Number(this.state.example) || 0, 0, examples.length - 1);
      const wanted = this.state.example, example = await this.data.example(wanted);
      if (this.closing.signal.aborted || this.state.example !== wanted) return;  // another was chosen meanwhile
      this.example = example;
      this.tellTexts();
      this.pointed = { q: null, k: null };
      this.draw();
      this.root.dataset.example = this.state.example;
    });
    if (!this.closing.signal.aborted) this.root.dataset.ready = "true";
  }

  tellTexts() {
    const { source, target } = this.example.content;
    const told = [["source", source], ["target", target]].filter(([, text]) => text);
    this.told.replaceChildren(...told.flatMap(([name, text]) => [html("dt", {}, name), html("dd", { dir: "auto" }, text)]));
    this.told.hidden = !told.length;
    // Long texts scroll, and what scrolls can be reached with the keyboard.
    const long = source.length + target.length > LONG_TEXT;
    const texts = this.told.parentNode;
    texts.classList.toggle("long", long);
    if (long) texts.tabIndex = 0; else texts.removeAttribute("tabindex");
  }

  change(name, value) {
    if (["example", "layer", "step"].includes(name) || (name === "head" && value !== "mean")) value = Number(value);
    if (name === "threshold") value = Number(value);
    this.state[name] = value;
    if (name === "example") {
      this.ready = this.openExample();
      return;
    }
    if (name === "group" || name === "view") this.pointed = { q: null, k: null };
    this.guard(() => this.draw());
  }

  // The state, made to fit the example that is open.
  settle() {
    const { state, example } = this;
    const exists = example.groups.length > 0;
    const usable = Object.fromEntries(Object.entries(VIEWS).map(([name, view]) => [name, exists && view.usable(example)]));
    if (!Object.hasOwn(VIEWS, state.view) || !usable[state.view]) state.view = "matrix";
    let group = example.groups.find((one) => one.title === state.group);
    if (!group) group = example.crossing || example.groups.at(-1);
    this.group = state.view === "decoding" ? example.crossing || group : group;
    state.group = group ? group.title : null;
    if (this.group) {
      const n = this.group.maps.length;
      if (!(state.layer >= 0 && state.layer < n)) state.layer = n - 1;
      this.map = this.group.maps[state.layer];
      if (state.head === "mean" ? this.map.H < 2 : !(state.head < this.map.H)) state.head = this.map.H > 1 ? "mean" : 0;
    }
    state.step = clamp(state.step, 0, Math.max(example.steps.length - 1, 0));
    return usable;
  }

  fillControls(usable) {
    const { state, controls, example } = this;
    for (const name of ["group", "layer", "head", "scale", "threshold"]) {
      this.labels[name].hidden = !this.group || !VIEWS[state.view].controls.includes(name);
    }
    if (this.group) {
      controls.group.replaceChildren(...example.groups.map((one) => option(one.title, one.title)));
      controls.layer.replaceChildren(...this.group.maps.map((map, i) => option(i, map.layer || map.name)));
      controls.head.replaceChildren(
        ...(this.map.H > 1 ? [option("mean", "mean of " + this.map.H)] : []),
        ...Array.from({ length: this.map.H }, (_, h) => option(h, "head " + h)));
    }
    for (const [name, control] of Object.entries(controls)) control.value = String(state[name]);
    this.least.textContent = state.threshold.toFixed(2);
    for (const tab of this.tabs.children) {
      const here = tab.dataset.view === state.view;
      tab.hidden = !usable[tab.dataset.view];
      tab.setAttribute("aria-selected", String(here));
      tab.tabIndex = here ? 0 : -1;
    }
    this.shown.setAttribute("aria-labelledby", "tab-" + state.view);
  }

  // ---- drawing ----

  draw() {
    if (!this.example) return;
    const { state } = this;
    this.root.dataset.theme = state.theme === "auto" ? (this.dark.matches ? "dark" : "light") : state.theme;
    this.theme = themeOf(this.root);
    const usable = this.settle();
    this.fillControls(usable);
    this.legend.textContent = VIEWS[state.view].legend;
    this.stepper.hidden = state.view !== "decoding";
    this.overview.element.hidden = state.view !== "heads" || !this.group;
    this.stage.hidden = this.numbers.hidden = state.view === "heads" || !this.group;
    this.matrix = null;
    this.picture = null;
    this.chosen.textContent = this.group ? titleOf(state.view, this) : "There are no attention maps to show.";
    this.path.textContent = this.group && VIEWS[state.view].controls.includes("layer") ? this.map.name : "";
    if (!this.group) return;
    if (state.view === "heads") this.overview.draw(this.example, state, this.theme, state.scale);
    else this.drawPicture();
    if (state.view === "decoding") this.fillStepper();
    this.drawTable();
    this.point(this.pointed.q, this.pointed.k);
  }

  drawPicture() {
    const { state } = this, room = Math.max((this.stage.clientWidth || this.shown.clientWidth || 640) - 2, 260);
    const { panels, matrix } = VIEWS[state.view].draw(this, room);
    this.matrix = matrix;
    this.picture = compose(panels, this.theme, room, titleOf(state.view, this));
    const { drawing } = this.picture;
    drawing.addEventListener("pointermove", (event) => this.follow(event));
    drawing.addEventListener("pointerdown", (event) => this.follow(event));
    drawing.addEventListener("pointerleave", (event) => {
      // A finger leaves when it is lifted, and what it touched should stay readable.
      if (event.pointerType === "mouse") this.point(null, null);
    });
    drawing.addEventListener("click", (event) => this.choose(this.hitOf(event)));
    this.stage.replaceChildren(drawing);
  }

  fillStepper() {
    const { state, example } = this, last = example.steps.length - 1, focused = this.output.contains(document.activeElement);
    this.slider.max = last;
    this.slider.value = state.step;
    this.slider.setAttribute("aria-valuetext", "step " + (state.step + 1) + ", " + example.steps[state.step].token);
    this.previous.disabled = state.step === 0;
    this.next.disabled = state.step === last;
    this.output.replaceChildren(...example.steps.map((step, t) => {
      const token = html("button", { type: "button", dir: "auto", title: three(step.probability) }, step.token);
      if (t === state.step) token.setAttribute("aria-current", "step");
      if (t > state.step) token.classList.add("later");
      token.addEventListener("click", () => { this.change("step", t); });
      return html("li", {}, null, [token]);
    }));
    if (focused) this.output.children[state.step].firstChild.focus();
  }

  openHead(group, layer, head) {
    Object.assign(this.state, { group, layer, head, view: "matrix" });
    this.pointed = { q: null, k: null };
    this.draw();
    this.stage.focus({ preventScroll: true });
  }

  // ---- pointing and reading ----

  hitOf(event) {
    const frame = this.picture.drawing.getBoundingClientRect();
    return this.picture.hit(event.clientX - frame.left, event.clientY - frame.top);
  }

  follow(event) {
    const at = this.hitOf(event);
    if (at && "layer" in at) this.reading.replaceChildren(...tellMeasures(this.group.maps[at.layer], at.head));
    else this.point(at ? at.q : null, at ? at.k : null);
  }

  choose(at) {
    if (!at || !("layer" in at)) return;
    Object.assign(this.state, at);
    this.draw();
  }

  point(q, k) {
    const { matrix } = this;
    if (matrix && ((q !== null && q >= matrix.Q) || (k !== null && k >= matrix.K))) q = k = null;
    this.pointed = { q, k };
    if (this.picture) this.picture.show(q, k);
    this.read(q, k);
  }

  read(q, k) {
    const { state } = this;
    const { tell } = VIEWS[state.view];
    this.reading.replaceChildren(...(tell ? tell(this) : this.matrix ? tellMatrix(this.matrix, q, k) : []));
  }

  drawTable() {
    const { numbers, state } = this;
    while (numbers.children.length > 1) numbers.lastChild.remove();
    if (!numbers.open || numbers.hidden) return;
    const { cells } = VIEWS[state.view];
    numbers.append(table(cells ? cells(this) : matrixCells(this.matrix)));
  }

  // ---- keys ----

  walkTabs(event) {
    const tabs = Array.from(this.tabs.children).filter((tab) => !tab.hidden), at = tabs.indexOf(event.target);
    const next = {
      ArrowLeft: tabs.at(at - 1), ArrowRight: tabs[(at + 1) % tabs.length], Home: tabs[0], End: tabs.at(-1),
    }[event.key];
    if (!next) return;
    event.preventDefault();
    this.change("view", next.dataset.view);
    next.focus();
  }

  keyOnStage(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { state } = this;
    const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key] || 0, down = { ArrowUp: -1, ArrowDown: 1 }[event.key] || 0;
    const turned = { PageUp: -1, PageDown: 1 }[event.key] || 0, other = { "[": -1, "]": 1 }[event.key] || 0;
    if (turned) this.change("layer", clamp(state.layer + turned, 0, this.group.maps.length - 1));
    else if (other) this.change("head", this.headAfter(other));
    else if (event.key === "Escape") this.point(null, null);
    else if (!along && !down) return;
    else if (state.view === "decoding") this.change("step", state.step + along + down);
    else if (state.view === "measures") {
      if (down) this.change("layer", clamp(state.layer + down, 0, this.group.maps.length - 1));
      else this.change("head", clamp((state.head === "mean" ? -1 : state.head) + along, 0, this.map.H - 1));
    } else this.move(down, along);
    event.preventDefault();
  }

  headAfter(by) {
    const heads = [...(this.map.H > 1 ? ["mean"] : []), ...Array.from({ length: this.map.H }, (_, h) => h)];
    return heads[clamp(heads.indexOf(this.state.head) + by, 0, heads.length - 1)];
  }

  move(down, along) {
    const { Q, K } = this.matrix, { q, k } = this.pointed;
    const from = (place, by, n) => (place === null ? 0 : clamp(place + by, 0, n - 1));
    if (!Q || !K) return;
    if (this.state.view === "lines") this.point(down ? from(q, down, Q) : null, along ? from(k, along, K) : null);
    else this.point(from(q, q === null ? 0 : down, Q), from(k, k === null ? 0 : along, K));
    const mark = this.picture.drawing.querySelector(".over .here") || this.picture.drawing.querySelector(".here");
    if (mark) mark.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  // ---- saving ----

  save(kind) {
    const name = "attention-" + this.state.view;
    if (kind === "html") return AttentionSaving.savePage(this.page, this.state, "attention");
    const drawing = this.state.view === "heads" ? this.overview.drawing() : this.picture.drawing;
    return kind === "svg" ? AttentionSaving.saveSvg(drawing, name) : AttentionSaving.savePng(drawing, name);
  }
}

function open(root, content, options = {}) {
  try {
    return new Viewer(root, content, options);
  } catch (error) {
    root.replaceChildren(html("p", { class: "problem", role: "alert" }, "This could not be drawn: " + error.message));
    throw error;
  }
}

return { open };
})();
