"use strict";
// The views: for each its name, the controls it answers to, how it is read, what it is called just now, what it draws,
// and the same in words and numbers. A view is given `shown`: {example, group, map, state, theme}, with map the one of the
// chosen layer. `draw` gives {panels, matrix}, the matrix being the one that can be pointed at.
const AttentionViews = (() => {

const { matrixPanel, linesPanel, measurePanel, barsPanel } = AttentionDrawings;
const { largest, strongest } = AttentionData;
const { tellStep, tellMeasures, stepCells, measureCells } = AttentionTelling;
const MOST_BARS = 40;
const BESIDE = 800;  // pixels from which two panels stand beside one another

const halfOf = (room) => (room >= BESIDE ? room / 2 - 24 : room);
const headName = ({ map, state }) => (map.H < 2 ? "" : state.head === "mean" ? "mean over heads" : "head " + state.head);
const mapTitle = (shown) => [shown.state.group, shown.map.layer, headName(shown)];
const titleOf = (view, shown) => VIEWS[view].title(shown).filter(Boolean).join(" \u00b7 ");
const ceilingOf = (matrix, { state }) => (state.scale === "full" ? 1 : largest(matrix) || 1);

const heads = {
  name: "Heads",
  controls: ["scale"],
  legend: "Every head of every layer. A number below a map is the head's; e its entropy in bits, d how far it looks. " +
    "Enter or a click opens a head; the arrow keys move between heads.",
  usable: () => true,
  title: () => ["All heads"],
  tell: () => [],
};

const matrix = {
  name: "Matrix",
  controls: ["group", "layer", "head", "scale"],
  legend: "Rows are queries (what looks), columns are keys (what is looked at). " +
    "Point at a cell, or move with the arrow keys.",
  usable: () => true,
  title: mapTitle,
  draw(shown, room) {
    const found = shown.example.matrix(shown.map, shown.state.head);
    const title = titleOf("matrix", shown), ceiling = ceilingOf(found, shown);
    return { panels: [matrixPanel(found, { theme: shown.theme, room, title, ceiling })], matrix: found };
  },
};

const lines = {
  name: "Lines",
  controls: ["group", "layer", "head", "threshold"],
  legend: "Lines lead from queries to keys, stronger where the weight is larger. Point at a word, or move with the " +
    "arrow keys: up and down through queries, left and right through keys.",
  usable: () => true,
  title: mapTitle,
  draw(shown, room) {
    const { example, map, state, theme } = shown, found = example.matrix(map, state.head);
    const title = titleOf("lines", shown);
    return { panels: [linesPanel(found, { theme, room, title, threshold: state.threshold })], matrix: found };
  },
};

const alignment = {
  name: "Alignment",
  controls: ["scale", "threshold"],
  legend: "Words by words: the weights of a word's tokens together. " +
    "Each word of the output is marked where it looks most.",
  usable: (example) => Boolean(example.content.alignment),
  title: () => ["Word alignment"],
  draw(shown, whole) {
    const { example, state, theme } = shown, found = example.alignment();
    const best = strongest(found), room = halfOf(whole), ceiling = ceilingOf(found, shown);
    const panels = [
      linesPanel(found, { theme, room, title: "as lines", threshold: state.threshold, best }),
      matrixPanel(found, { theme, room, title: "as a matrix", ceiling, best }),
    ];
    return { panels, matrix: found };
  },
};

const rollout = {
  name: "Rollout",
  controls: ["group", "layer", "scale"],
  legend: "Left, the mean over the heads of this layer. Right, attention rollout: layers multiplied from the first to " +
    "this one, half of each being the residual connection; cross-attention followed on through the encoder.",
  usable: (example) => example.content.maps.some((map) => map.rollout !== null),
  title: ({ state, map }) => [state.group, map.layer, "raw and rollout"],
  draw(shown, whole) {
    const { example, map, theme } = shown, room = halfOf(whole);
    const raw = example.matrix(map, "mean"), rolled = example.rollout(map);
    const panel = (found, title) => matrixPanel(found, { theme, room, title, ceiling: ceilingOf(found, shown) });
    if (!rolled) return { panels: [panel(raw, "raw, mean over heads (no rollout here)")], matrix: raw };
    return { panels: [panel(raw, "raw, mean over heads"), panel(rolled, "rollout")], matrix: rolled };
  },
};

const measures = {
  name: "Measures",
  controls: ["group"],
  legend: "Entropy: the bits by which a head's attention is spread (0: one key; log2 of n: n keys alike). Distance: how " +
    "far from its own place a query looks on average. A click or the arrow keys choose a head.",
  usable: () => true,
  title: ({ state }) => [state.group, "entropy and distance"],
  draw({ example, group, map, state, theme }) {
    const chosen = { layer: state.layer, head: state.head };
    const panels = [measurePanel(group, "entropy", { theme, title: "entropy, bits", chosen })];
    if (group.maps.every((one) => one.distance)) {
      const unit = example.content.axes[map.rows].kind === "points" ? "in the plane" : "positions";
      panels.push(measurePanel(group, "distance", { theme, title: "mean distance, " + unit, chosen }));
    }
    return { panels, matrix: null };
  },
  tell: ({ map, state }) => tellMeasures(map, state.head),
  cells: ({ group }) => measureCells(group),
};

const decoding = {
  name: "Decoding",
  controls: ["layer", "head"],
  legend: "Left, what the model held probable at this step, given the tokens before it. Right, where the step looked. " +
    "The left and right arrow keys step.",
  usable: (example) => example.steps.length > 0,
  title: ({ example, state }) => ["Step " + (state.step + 1) + " of " + example.steps.length],
  draw(shown, whole) {
    const { example, map, state, theme } = shown, step = example.steps[state.step], room = halfOf(whole);
    const found = example.matrix(map, state.head);
    const told = step.alternatives.map(([label, value]) => ({ label, value, chosen: label === step.token }));
    if (!told.some((bar) => bar.chosen)) told.push({ label: step.token, value: step.probability, chosen: true });
    const panels = [barsPanel(told, { theme, room, title: "probability of the next token" })];
    if (state.step < found.Q) {
      const title = ["where it looks", map.layer, headName(shown)].filter(Boolean).join(", ");
      panels.push(barsPanel(lookedAt(found, state.step), { theme, room, title }));
    }
    return { panels, matrix: found };
  },
  tell: ({ example, state }) => tellStep(example.steps[state.step]),
  cells: ({ example, state }) => stepCells(example.steps[state.step]),
};

// The keys of a query in their order; of many, those it looks at most.
function lookedAt({ K, columns, weights }, q) {
  const bars = columns.items.map((label, k) => ({ label, k, value: weights[q * K + k] }));
  if (K <= MOST_BARS) return bars;
  return bars.sort((a, b) => b.value - a.value).slice(0, MOST_BARS).sort((a, b) => a.k - b.k);
}

const VIEWS = { heads, matrix, lines, alignment, rollout, measures, decoding };

return { VIEWS, titleOf };
})();
