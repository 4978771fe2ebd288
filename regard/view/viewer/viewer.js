"use strict";
// The viewer: what is chosen, the controls that choose it, and the view of it.
// AttentionViewer.open(element, document) needs an empty element, the style sheet and the three scripts before this one.
const AttentionViewer = (() => {

const { matrixPanel, linesPanel, measurePanel, barsPanel, thumbnail, compose, sheet, svg, themeOf, shorten, three, clamp } = AttentionDrawings;
const { largest, strongest } = AttentionData;

// Each view: its name, the controls it answers to, and how it is read.
const VIEWS = {
  heads: ["Heads", ["scale"], "Every head of every layer. A number below a map is the head's; e its entropy in bits, d how far it looks. Enter or a click opens a head; the arrow keys move between heads."],
  matrix: ["Matrix", ["group", "layer", "head", "scale"], "Rows are queries (what looks), columns are keys (what is looked at). Point at a cell, or move with the arrow keys."],
  lines: ["Lines", ["group", "layer", "head", "threshold"], "Lines lead from queries to keys, stronger where the weight is larger. Point at a word, or move with the arrow keys: up and down through queries, left and right through keys."],
  alignment: ["Alignment", ["scale", "threshold"], "Words by words: the weights of a word's tokens together. Each word of the output is marked where it looks most."],
  rollout: ["Rollout", ["group", "layer", "scale"], "Left, the mean over the heads of this layer. Right, attention rollout: layers multiplied from the first to this one, half of each being the residual connection; cross-attention followed on through the encoder."],
  measures: ["Measures", ["group"], "Entropy: the bits by which a head's attention is spread (0: one key; log2 of n: n keys alike). Distance: how far from its own place a query looks on average. A click chooses a head."],
  decoding: ["Decoding", ["layer", "head"], "Left, what the model held probable at this step, given the tokens before it. Right, where the step looked. The left and right arrow keys step."],
};
const MOST_BARS = 40;
const LONG_TEXT = 500;  // characters
const STAGE_KEYS = "Arrow keys move, Page Up and Page Down change the layer, square brackets the head, Escape lets go.";

// Everything that came from text enters the document here, as text, never as markup.
function html(tag, attributes = {}, text = null, children = []) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  element.append(...children);
  return element;
}

function option(value, text) {
  return html("option", { value }, text);
}

function choice(options = []) {
  return html("select", {}, null, options);
}

class Viewer {
  constructor(root, content, { page = null, state = {} }) {
    this.root = root;
    this.page = page;
    this.data = new AttentionData.Document(content);
    this.state = { example: 0, view: "matrix", group: null, layer: -1, head: "mean", scale: "own", threshold: 0.02, step: 0, theme: "auto", ...state };
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
      example: choice(content.examples.map((one, i) => option(i, (i + 1) + ". " + shorten(one.source || one.target || content.title, 60)))),
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
    const names = { example: spoken ? "Sentence" : "Example", group: "Attention", layer: "Layer", head: "Head", scale: "Colour", threshold: "Hide below", theme: "Theme" };
    for (const [name, control] of Object.entries(this.controls)) {
      this.labels[name] = html("label", {}, null, [html("span", {}, names[name]), control]);
      this.labels[name].dataset.control = name;
      control.addEventListener(name === "threshold" ? "input" : "change", () => this.change(name, control.value));
      bar.append(this.labels[name]);
    }
    this.least = html("output", { class: "least" });
    this.labels.threshold.append(this.least);
    this.labels.example.hidden = content.examples.length < 2;

    this.tabs = html("div", { class: "tabs", role: "tablist", "aria-label": "Views" });
    for (const [view, [title]] of Object.entries(VIEWS)) {
      const tab = html("button", { type: "button", role: "tab", id: "tab-" + view, "aria-controls": "shown", "data-view": view }, title);
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
    this.overview = html("div", { class: "overview" });
    this.overview.addEventListener("keydown", (event) => this.walkHeads(event));
    this.reading = html("p", { class: "reading", role: "status" });
    this.table = html("details", { class: "numbers" }, null, [html("summary", {}, "These numbers as a table")]);
    this.table.addEventListener("toggle", () => this.drawTable());
    const save = html("div", { class: "save", role: "group", "aria-label": "Save" }, null, [html("span", {}, "Save")]);
    for (const [kind, title] of [["svg", "SVG"], ["png", "PNG"], ["html", "HTML"]]) {
      if (kind === "html" && !this.page) continue;
      const button = html("button", { type: "button", "data-save": kind, "aria-label": "Save as " + title }, title);
      button.addEventListener("click", () => this.guard(() => this.save(kind)));
      save.append(button);
    }
    const shown = html("section", { class: "shown", id: "shown", role: "tabpanel" }, null, [
      html("div", { class: "bar" }, null, [html("div", {}, null, [this.chosen, this.path]), save]),
      this.legend, this.stepper, this.overview, this.stage, this.reading, this.table,
    ]);
    this.shown = shown;
    this.root.replaceChildren(
      html("h1", { dir: "auto" }, content.title || "Attention"), this.problem, texts, bar, this.tabs, shown, this.footer(content));

    this.dark = window.matchMedia("(prefers-color-scheme: dark)");
    this.dark.addEventListener("change", () => this.draw());
    let waiting = 0;
    window.addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => this.draw()); });
  }

  footer(content) {
    return html("div", { class: "footer" }, null, [
      "Weights are stored in 8 bits, as whole numbers from 0 to " + content.levels + ": each is within 1/" + 2 * content.levels +
        " of the model's own, less than 0.002. Entropy, distance and rollout were taken of the model's own weights, means over heads are of the stored ones.",
      "Each row of weights sums to one; a row of zeros may look at nothing. Layers and heads are counted from 0, as in the code.",
      "This page asks the network for nothing.",
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
      this.example = await this.data.example(this.state.example);
      this.tellTexts();
      this.pointed = { q: null, k: null };
      this.draw();
    });
    this.root.dataset.ready = "true";
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
    const usable = {
      heads: exists, matrix: exists, lines: exists, measures: exists, alignment: Boolean(example.content.alignment),
      rollout: example.content.maps.some((map) => map.rollout !== null), decoding: example.steps.length > 0,
    };
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
    const [, needed] = VIEWS[state.view];
    for (const name of ["group", "layer", "head", "scale", "threshold"]) this.labels[name].hidden = !needed.includes(name) || !this.group;
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
    this.legend.textContent = VIEWS[state.view][2];
    this.stepper.hidden = state.view !== "decoding";
    this.overview.hidden = state.view !== "heads";
    this.stage.hidden = this.table.hidden = state.view === "heads";
    this.matrix = null;
    this.picture = null;
    this.chosen.textContent = this.titleOf();
    this.path.textContent = this.map && ["matrix", "lines", "rollout"].includes(state.view) ? this.map.name : "";
    if (!this.group) {
      this.chosen.textContent = "There are no attention maps to show.";
      this.stage.hidden = this.table.hidden = this.overview.hidden = true;
      return;
    }
    if (state.view === "heads") {
      this.drawHeads();
    } else {
      const room = Math.max((this.stage.clientWidth || this.shown.clientWidth || 640) - 2, 260);
      const panels = this["panels_" + state.view](room);
      this.picture = compose(panels, this.theme, room, this.titleOf());
      this.picture.drawing.addEventListener("pointermove", (event) => this.follow(event));
      this.picture.drawing.addEventListener("pointerdown", (event) => this.follow(event));
      // A finger leaves when it is lifted, and what it touched should stay readable.
      this.picture.drawing.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") this.point(null, null); });
      this.picture.drawing.addEventListener("click", (event) => this.choose(this.hitOf(event)));
      this.stage.replaceChildren(this.picture.drawing);
    }
    this.drawTable();
    this.point(this.pointed.q, this.pointed.k);
  }

  titleOf() {
    const { state } = this, head = state.head === "mean" ? "mean over heads" : "head " + state.head;
    const layer = this.map && this.map.layer;
    const parts = {
      heads: ["All heads"],
      alignment: ["Word alignment"],
      measures: [state.group, "entropy and distance"],
      rollout: [state.group, layer, "raw and rollout"],
      decoding: ["Step " + (state.step + 1) + " of " + this.example.steps.length],
    }[state.view] || [state.group, layer, this.map && this.map.H > 1 ? head : ""];
    return parts.filter(Boolean).join(" \u00b7 ");
  }

  ceiling(...matrices) {
    return this.state.scale === "full" ? 1 : Math.max(...matrices.map(largest)) || 1;
  }

  panels_matrix(room) {
    this.matrix = this.example.matrix(this.map, this.state.head);
    return [matrixPanel(this.matrix, { theme: this.theme, room, title: this.titleOf(), ceiling: this.ceiling(this.matrix) })];
  }

  panels_lines(room) {
    this.matrix = this.example.matrix(this.map, this.state.head);
    return [linesPanel(this.matrix, { theme: this.theme, room, title: this.titleOf(), threshold: this.state.threshold })];
  }

  panels_alignment(room) {
    this.matrix = this.example.alignment();
    const best = strongest(this.matrix), half = room >= 860 ? room / 2 - 24 : room;
    return [
      linesPanel(this.matrix, { theme: this.theme, room: half, title: "as lines", threshold: this.state.threshold, best }),
      matrixPanel(this.matrix, { theme: this.theme, room: half, title: "as a matrix", ceiling: this.ceiling(this.matrix), best }),
    ];
  }

  panels_rollout(room) {
    const raw = this.example.matrix(this.map, "mean"), rolled = this.example.rollout(this.map);
    this.matrix = rolled || raw;
    const half = room >= 860 ? room / 2 - 24 : room;
    const panel = (matrix, title) => matrixPanel(matrix, { theme: this.theme, room: half, title, ceiling: this.ceiling(matrix) });
    return rolled ? [panel(raw, "raw, mean over heads"), panel(rolled, "rollout")] : [panel(raw, "raw, mean over heads (no rollout here)")];
  }

  panels_measures() {
    const { state } = this, chosen = { layer: state.layer, head: state.head };
    const made = [measurePanel(this.group, "entropy", { theme: this.theme, title: "entropy, bits", chosen })];
    if (this.group.maps.every((map) => map.distance)) {
      const unit = this.example.content.axes[this.map.rows].kind === "points" ? "in the plane" : "positions";
      made.push(measurePanel(this.group, "distance", { theme: this.theme, title: "mean distance, " + unit, chosen }));
    }
    return made;
  }

  panels_decoding(room) {
    const { state, example } = this, step = example.steps[state.step];
    this.matrix = example.matrix(this.map, state.head);
    const told = step.alternatives.map(([label, value]) => ({ label, value, chosen: label === step.token }));
    if (!told.some((bar) => bar.chosen)) told.push({ label: step.token, value: step.probability, chosen: true });
    const half = room >= 760 ? room / 2 - 24 : room;
    const panels = [barsPanel(told, { theme: this.theme, room: half, title: "probability of the next token" })];
    if (state.step < this.matrix.Q) {
      const { K, columns, weights } = this.matrix;
      let looked = columns.items.map((label, k) => ({ label, k, value: weights[state.step * K + k] }));
      if (K > MOST_BARS) looked = looked.sort((a, b) => b.value - a.value).slice(0, MOST_BARS).sort((a, b) => a.k - b.k);
      const head = state.head === "mean" ? "mean over heads" : "head " + state.head;
      const where = [this.map.layer, this.map.H > 1 ? head : ""].filter(Boolean).join(", ");
      panels.push(barsPanel(looked, { theme: this.theme, room: half, title: "where it looks" + (where ? ": " + where : "") }));
    }
    this.fillStepper(step);
    return panels;
  }

  fillStepper() {
    const { state, example } = this, last = example.steps.length - 1;
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
  }

  // ---- all heads ----

  drawHeads() {
    this.rows = [];
    this.overview.replaceChildren(...this.example.groups.map((group) => {
      const section = html("section", {}, null, [html("h3", { dir: "auto" }, group.title)]);
      group.maps.forEach((map, layer) => {
        const heads = Array.from({ length: map.H }, (_, head) => this.thumb(group, map, layer, head));
        this.rows.push(heads);
        section.append(html("div", { class: "row", role: "group", "aria-label": group.title + ", " + (map.layer || map.name) }, null, [
          html("span", { class: "row-name" }, map.layer || map.name), html("div", { class: "thumbs" }, null, heads),
        ]));
      });
      return section;
    }));
    const all = this.rows.flat();
    (all.find((thumb) => thumb.getAttribute("aria-pressed") === "true") || all[0] || {}).tabIndex = 0;
  }

  thumb(group, map, layer, head) {
    const { state } = this;
    const here = group === this.group && layer === state.layer && head === state.head;
    const numbers = "e " + map.entropy[head].toFixed(1) + (map.distance ? " d " + map.distance[head].toFixed(1) : "");
    const spoken = [group.title, map.layer, "head " + head, "entropy " + map.entropy[head].toFixed(2) + " bits",
      map.distance ? "distance " + map.distance[head].toFixed(2) : ""].filter(Boolean).join(", ");
    const canvas = html("canvas", { "aria-hidden": "true" });
    const button = html("button", { type: "button", class: "thumb", "aria-label": spoken, "aria-pressed": String(here), tabindex: "-1", title: map.name }, null, [
      canvas, html("span", { class: "head" }, String(head)), html("span", { class: "measure" }, numbers),
    ]);
    const stored = this.example.levelsOf(map, head);
    const ceiling = state.scale === "full" ? 1 : stored.levels.reduce((most, level) => Math.max(most, level), 1) / stored.most;
    thumbnail(canvas, stored, this.theme, ceiling);
    button.addEventListener("click", () => {
      Object.assign(state, { group: group.title, layer, head, view: "matrix" });
      this.pointed = { q: null, k: null };
      this.draw();
      this.stage.focus({ preventScroll: true });
    });
    return button;
  }

  walkHeads(event) {
    const way = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    const row = this.rows.findIndex((heads) => heads.includes(event.target));
    if (!way || row < 0) return;
    event.preventDefault();
    const all = this.rows.flat(), [down, along] = way;
    const other = this.rows[clamp(row + down, 0, this.rows.length - 1)];
    const next = along ? all[clamp(all.indexOf(event.target) + along, 0, all.length - 1)] : other[Math.min(this.rows[row].indexOf(event.target), other.length - 1)];
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  // The overview as one drawing, for saving.
  headsDrawing() {
    const side = 72, gap = 10, left = 74, drawn = [];
    let y = 8, width = 300;
    const say = (x, at, text, more = {}) => svg("text", { x, y: at, "font-size": 11, fill: this.theme.muted, ...more }, text);
    let row = 0;
    for (const group of this.example.groups) {
      drawn.push(say(8, y + 16, group.title, { "font-size": 14, "font-weight": 600, fill: this.theme.ink }));
      y += 26;
      for (const map of group.maps) {
        drawn.push(say(8, y + 14, shorten(map.layer || map.name, 10)));
        this.rows[row++].forEach((thumb, head) => {
          const canvas = thumb.querySelector("canvas"), x = left + head * (side + gap);
          drawn.push(
            svg("image", { x, y, width: side, height: side, preserveAspectRatio: "none", href: canvas.toDataURL("image/png"), "image-rendering": canvas.style.imageRendering }),
            svg("rect", { x, y, width: side, height: side, fill: "none", stroke: this.theme.line }),
            say(x, y + side + 13, head + "  " + thumb.querySelector(".measure").textContent, { "font-size": 10 }));
          width = Math.max(width, x + side + gap);
        });
        y += side + 22;
      }
      y += 8;
    }
    const drawing = sheet(width, y, this.theme, "All heads");
    drawing.append(...drawn);
    return drawing;
  }

  // ---- pointing and reading ----

  hitOf(event) {
    const frame = this.picture.drawing.getBoundingClientRect();
    return this.picture.hit(event.clientX - frame.left, event.clientY - frame.top);
  }

  follow(event) {
    const at = this.hitOf(event);
    if (at && "layer" in at) this.readMeasure(at.layer, at.head);
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
    const { state } = this, say = (...parts) => this.reading.replaceChildren(...parts);
    if (state.view === "heads") return say("");
    if (state.view === "measures") return this.readMeasure(state.layer, state.head);
    if (state.view === "decoding") {
      const step = this.example.steps[state.step];
      return say("Chosen: ", html("bdi", {}, step.token), " with probability ", html("b", {}, three(step.probability)));
    }
    if (!this.matrix || (q === null && k === null)) return say("");
    const { rows, columns, weights, K } = this.matrix;
    const token = (text) => html("bdi", {}, text);
    if (q !== null && k !== null) {
      return say(token(rows.items[q]), " looks at ", token(columns.items[k]), " with weight ", html("b", {}, three(weights[q * K + k])));
    }
    const line = q !== null
      ? columns.items.map((text, i) => ({ text, weight: weights[q * K + i] }))
      : rows.items.map((text, i) => ({ text, weight: weights[i * K + k] }));
    const some = line.filter((one) => one.weight > 0).sort((a, b) => b.weight - a.weight);
    const [one, verb] = q !== null ? [rows.items[q], " looks at "] : [columns.items[k], " is looked at by "];
    if (!some.length) return say(token(one), verb, "nothing");
    say(token(one), verb, ...some.slice(0, 4).flatMap(({ text, weight }, i) => [i ? ", " : "", token(text), " ", html("b", {}, three(weight))]), some.length > 4 ? ", \u2026" : "");
  }

  readMeasure(layer, head) {
    const map = this.group.maps[layer];
    if (head === "mean" || !map || head >= map.H) return this.reading.replaceChildren("");
    const far = map.distance ? ", distance " + map.distance[head].toFixed(2) : "";
    this.reading.replaceChildren([map.layer, "head " + head].filter(Boolean).join(", ") + ": entropy " + map.entropy[head].toFixed(2) + " bits" + far);
  }

  drawTable() {
    const { table, state } = this;
    while (table.children.length > 1) table.lastChild.remove();
    if (!table.open || table.hidden) return;
    const cells = { columns: [], rows: [] };
    if (state.view === "measures") {
      for (const map of this.group.maps) {
        cells.rows.push([(map.layer || map.name) + ", entropy", map.entropy.map((value) => value.toFixed(2))]);
        if (map.distance) cells.rows.push([(map.layer || map.name) + ", distance", map.distance.map((value) => value.toFixed(2))]);
      }
      cells.columns = Array.from({ length: Math.max(...this.group.maps.map((map) => map.H)) }, (_, h) => "head " + h);
    } else if (state.view === "decoding") {
      cells.columns = ["probability"];
      cells.rows = this.example.steps[state.step].alternatives.map(([token, value]) => [token, [three(value)]]);
    } else {
      const { rows, columns, weights, K } = this.matrix;
      cells.columns = columns.items;
      cells.rows = rows.items.map((item, q) => [item, Array.from(weights.subarray(q * K, (q + 1) * K), three)]);
    }
    const made = html("table", {}, null, [
      html("thead", {}, null, [html("tr", {}, null, [html("td"), ...cells.columns.map((text) => html("th", { scope: "col", dir: "auto" }, text))])]),
      html("tbody", {}, null, cells.rows.map(([name, values]) => html("tr", {}, null, [
        html("th", { scope: "row", dir: "auto" }, name), ...values.map((value) => html("td", {}, value)),
      ]))),
    ]);
    table.append(html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of numbers" }, null, [made]));
  }

  // ---- keys ----

  walkTabs(event) {
    const tabs = Array.from(this.tabs.children).filter((tab) => !tab.hidden), at = tabs.indexOf(event.target);
    const next = { ArrowLeft: tabs.at(at - 1), ArrowRight: tabs[(at + 1) % tabs.length], Home: tabs[0], End: tabs.at(-1) }[event.key];
    if (!next) return;
    event.preventDefault();
    this.change("view", next.dataset.view);
    next.focus();
  }

  keyOnStage(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { state } = this, along = { ArrowLeft: -1, ArrowRight: 1 }[event.key] || 0, down = { ArrowUp: -1, ArrowDown: 1 }[event.key] || 0;
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
    const drawing = this.state.view === "heads" ? this.headsDrawing() : this.picture.drawing;
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
