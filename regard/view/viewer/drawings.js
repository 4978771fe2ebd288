"use strict";
// Drawings as SVG, with every colour written in, so that what is on the screen can be saved as it is.
// A panel is {node, width, height, hit(x, y) -> {q, k} or null, show(q, k)}; q and k may be null.
const AttentionDrawings = (() => {

const { svg } = AttentionElements;
const FONT = "system-ui, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif";
const LONGEST_LABEL = 16;
const SHADES = 255;
const COLOURS = ["paper", "panel", "line", "ink", "muted", "select", "mark"];

const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const three = (weight) => weight.toFixed(3);

function themeOf(element) {
  const style = getComputedStyle(element);
  const theme = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue("--" + name).trim()]));
  theme.ramp = rampOf(style.getPropertyValue("--ramp").trim().split(/\s+/));
  return theme;
}

// From weight 0 to the largest, in as many shades as weights are stored in.
function rampOf(stops) {
  const rgb = stops.map((stop) => [1, 3, 5].map((at) => parseInt(stop.slice(at, at + 2), 16)));
  return Array.from({ length: SHADES + 1 }, (_, i) => {
    const at = (i / SHADES) * (rgb.length - 1);
    const low = Math.min(Math.floor(at), rgb.length - 2);
    return rgb[low].map((value, c) => Math.round(value + (rgb[low + 1][c] - value) * (at - low)));
  });
}

const shadeOf = (weight, ceiling) => clamp(Math.round((weight / ceiling) * SHADES), 0, SHADES);
const css = (rgb) => "rgb(" + rgb.join(",") + ")";

const measure = document.createElement("canvas").getContext("2d");
function widest(labels, size) {
  measure.font = size + "px " + FONT;
  return labels.reduce((most, label) => Math.max(most, measure.measureText(label).width), 0);
}

function shorten(token, longest = LONGEST_LABEL) {
  const characters = Array.from(token);
  return characters.length <= longest ? token : characters.slice(0, longest - 1).join("") + "\u2026";
}

function label(token, attributes) {
  const text = svg("text", attributes, shorten(token));
  if (shorten(token) !== token) text.append(svg("title", {}, token));
  return text;
}

// Text whose middle is at y.
function write(x, y, text, fill, size, more = {}) {
  return svg("text", { x, y, "dominant-baseline": "central", "font-size": size, fill, ...more }, text);
}

// Smaller where the drawing is narrow.
function heading(text, theme, width) {
  const size = clamp((13 * width) / (1.1 * widest([text], 13)), 9, 13);
  return svg("text", { x: 0, y: 15, "font-size": r1(size), "font-weight": 600, fill: theme.ink }, text);
}

// Elements of the same shade are one path: a map of 200 by 200 has at most 255 elements.
function paths(weights, ceiling, pieceOf, attributesOf) {
  const pieces = new Map();
  weights.forEach((weight, i) => {
    const shade = shadeOf(weight, ceiling), piece = shade && pieceOf(i, weight);
    if (!piece) return;
    if (!pieces.has(shade)) pieces.set(shade, []);
    pieces.get(shade).push(piece);
  });
  return Array.from(pieces).sort((a, b) => a[0] - b[0])
    .map(([shade, list]) => svg("path", { d: list.join(""), ...attributesOf(shade) }));
}

// ---- a matrix: queries down, keys across ----

function matrixPanel(matrix, { theme, room, title, ceiling, best = null }) {
  const { rows, columns, Q, K, weights } = matrix;
  const rowLabels = rows.items.map((item) => shorten(item)), columnLabels = columns.items.map((item) => shorten(item));
  const inset = widest(rowLabels, 13) + widest(columnLabels, 13) * 0.5 + 16;
  const cell = clamp(Math.floor(Math.min((room - inset) / K, Math.max(600 / Q, 16))), 7, 46);
  const size = clamp(cell - 1, 6, 13);
  const left = Math.ceil(widest(rowLabels, size) + 12);
  const top = Math.ceil(widest(columnLabels, size) * 0.87 + 38);
  const overhang = Math.max(widest(columnLabels, size) * 0.5 - cell / 2, 0);
  const width = Math.ceil(left + K * cell + overhang + 8), height = top + Q * cell + 34;
  const gap = cell > 9 ? 1 : 0, side = cell - gap;

  const node = svg("g");
  node.append(heading(title, theme, width));
  node.append(svg("rect", {
    x: left, y: top, width: K * cell, height: Q * cell, fill: css(theme.ramp[0]), stroke: theme.line,
  }));
  node.append(...paths(weights, ceiling,
    (i) => "M" + (left + (i % K) * cell) + " " + (top + Math.floor(i / K) * cell) + "h" + side + "v" + side + "h-" + side + "z",
    (shade) => ({ fill: css(theme.ramp[shade]) })));
  if (best) {
    best.forEach((k, q) => {
      if (k < 0) return;
      node.append(svg("rect", {
        x: left + k * cell + 1, y: top + q * cell + 1, width: side - 2, height: side - 2, rx: 2, fill: "none",
        stroke: theme.mark, "stroke-width": 2,
      }));
    });
  }
  const rowTexts = rows.items.map((item, q) => label(item, {
    x: left - 7, y: top + (q + 0.5) * cell, "text-anchor": "end", "dominant-baseline": "central", "font-size": size, fill: theme.ink,
  }));
  const columnTexts = columns.items.map((item, k) => {
    const x = left + (k + 0.5) * cell, y = top - 7;
    return label(item, {
      x, y, transform: "rotate(-60 " + x + " " + y + ")", "dominant-baseline": "central", "font-size": size, fill: theme.ink,
    });
  });
  const over = svg("g", { class: "over" });
  node.append(...rowTexts, ...columnTexts, scale(left, top + Q * cell + 12, ceiling, theme), over);

  const frame = (x, y, w, h, strength) => svg("rect", {
    x, y, width: w, height: h, fill: "none", stroke: theme.mark, "stroke-width": strength, "pointer-events": "none",
  });
  const show = (q, k) => {
    light(rowTexts, q, theme);
    light(columnTexts, k, theme);
    over.replaceChildren();
    if (q !== null) over.append(frame(left - 1, top + q * cell - 1, K * cell + 1, side + 2, 1));
    if (k !== null) over.append(frame(left + k * cell - 1, top - 1, side + 2, Q * cell + 1, 1));
    if (q === null || k === null) return;
    over.append(frame(left + k * cell - 1, top + q * cell - 1, side + 2, side + 2, 2));
    over.lastChild.classList.add("here");
    const x = clamp(left + (k + 0.5) * cell, 24, width - 24), y = top + q * cell + (q === 0 ? cell + 13 : -13);
    over.append(
      svg("rect", { x: x - 22, y: y - 9, width: 44, height: 18, rx: 4, fill: theme.paper, stroke: theme.mark }),
      write(x, y, three(weights[q * K + k]), theme.ink, 11, { "text-anchor": "middle", "font-weight": 700 }));
  };
  // Left of the cells a whole row is meant, above them a whole column.
  const hit = (x, y) => {
    const k = Math.floor((x - left) / cell), q = Math.floor((y - top) / cell);
    const at = { q: q >= 0 && q < Q && k < K ? q : null, k: k >= 0 && k < K && q < Q ? k : null };
    return at.q === null && at.k === null ? null : at;
  };
  return { node, width, height, hit, show };
}

// What the shades mean.
function scale(x, y, ceiling, theme) {
  const steps = 24, width = 4, node = svg("g");
  for (let i = 0; i < steps; i++) {
    const fill = css(theme.ramp[Math.round((i / (steps - 1)) * SHADES)]);
    node.append(svg("rect", { x: x + 12 + i * width, y, width, height: 10, fill }));
  }
  const most = ceiling === 1 ? "1" : three(ceiling);
  node.append(write(x, y + 5, "0", theme.muted, 11), write(x + 18 + steps * width, y + 5, most, theme.muted, 11));
  return node;
}

function light(texts, chosen, theme) {
  texts.forEach((text, i) => {
    text.setAttribute("fill", i === chosen ? theme.mark : theme.ink);
    text.setAttribute("font-weight", i === chosen ? 700 : 400);
    text.classList.toggle("here", i === chosen);
  });
}

// ---- lines: tokens stand in two columns, points where they lie in their plane ----

function linesPanel(matrix, { theme, room, title, threshold, best = null }) {
  const { rows, columns, Q, K, weights } = matrix;
  const points = [rows, columns].flatMap((axis) => axis.points || []), plane = points.length > 0;
  const tallest = Math.max(rows.kind === "tokens" ? Q : 0, columns.kind === "tokens" ? K : 0, 1);
  const step = clamp(640 / tallest, 13, 26), size = clamp(step - 4, 9, 14), top = 50, numbers = 40;
  const wide = (axis) => (axis.kind === "tokens" ? numbers + widest(axis.items.map((item) => shorten(item)), size) + 10 : 44);
  const left = wide(rows), right = wide(columns);
  const width = Math.round(clamp(room, left + right + 100, left + right + (plane ? 460 : 320)));
  const across = width - left - right;
  const height = Math.ceil(Math.max(top + tallest * step + 8, plane ? top + across + 14 : 0));
  const place = placer(points, left + 12, top, across - 24);
  const level = (i, n) => top + (i + 0.5) * step + (plane ? Math.max(0, (height - top - n * step) / 2) : 0);
  const from = rows.kind === "points" ? rows.points.map(place) : rows.items.map((_, q) => [left, level(q, Q)]);
  const to = columns !== rows && columns.kind === "points" ? columns.points.map(place)
    : plane && columns === rows ? from : columns.items.map((_, k) => [width - right, level(k, K)]);

  const curve = (q, k) => {
    const [x1, y1] = from[q], [x2, y2] = to[k];
    if (q === k && from === to) return "M" + r1(x1) + " " + r1(y1) + "m-7 0a7 7 0 1 0 14 0a7 7 0 1 0-14 0";
    if (plane) return "M" + r1(x1) + " " + r1(y1) + "L" + r1(x2) + " " + r1(y2);
    const bend = (x2 - x1) * 0.4;
    return "M" + r1(x1) + " " + r1(y1) + "C" + [x1 + bend, y1, x2 - bend, y2, x2, y2].map(r1).join(" ");
  };
  const drawn = (weight) => weight >= threshold && weight > 0;
  const stroke = (colour) => (shade) => ({
    fill: "none", stroke: colour, "stroke-opacity": clamp(0.12 + shade / SHADES, 0, 1).toFixed(3),
    "stroke-width": (0.8 + (4.2 * shade) / SHADES).toFixed(2),
  });
  const links = svg("g"), focus = svg("g", { class: "over", "pointer-events": "none" }), node = svg("g");
  const curveOf = (i) => curve(Math.floor(i / K), i % K);
  links.append(...paths(weights, 1, (i, weight) => drawn(weight) && curveOf(i), stroke(theme.select)));
  if (best) {
    const strong = weights.map((weight, i) => (best[Math.floor(i / K)] === i % K ? Math.max(weight, 0.3) : 0));
    links.append(...paths(strong, 1, curveOf, stroke(theme.mark)));
  }
  node.append(heading(title, theme, width), links, focus);
  const columnHead = (x, anchor, text) => write(x, 34, text, theme.muted, 11, { "text-anchor": anchor });
  if (rows.kind === "tokens") node.append(columnHead(left - 6, "end", "queries"));
  if (columns.kind === "tokens") node.append(columnHead(width - right + 6, "start", "keys"));
  const side = (axis, places, x, anchor) => axis.items.map((item, i) => {
    if (axis.kind === "points") return svg("circle", { cx: r1(places[i][0]), cy: r1(places[i][1]), r: 4, fill: theme.ink });
    return label(item, {
      x, y: places[i][1], "text-anchor": anchor, "dominant-baseline": "central", "font-size": size, fill: theme.ink,
    });
  });
  const queryMarks = side(rows, from, left - 6, "end");
  const keyMarks = from === to ? queryMarks : side(columns, to, width - right + 6, "start");
  node.append(...queryMarks, ...(from === to ? [] : keyMarks));

  const number = (axis, [x, y], far, anchor, weight) => (axis.kind === "points"
    ? write(r1(x + 7), r1(y - 7), three(weight), theme.ink, 11, { "font-weight": 700 })
    : write(far, r1(y), three(weight), theme.ink, 11, { "font-weight": 700, "text-anchor": anchor }));
  const show = (q, k) => {
    links.setAttribute("opacity", q === null && k === null ? 1 : 0.12);
    const looking = (i) => (q === null && k !== null ? weights[i * K + k] : 0);
    const lookedAt = (i) => (q !== null && k === null ? weights[q * K + i] : 0);
    if (rows.kind === "points") swell(queryMarks, looking);
    if (columns.kind === "points" && (from !== to || q !== null)) swell(keyMarks, lookedAt);
    if (from === to) light(queryMarks, q === null ? k : q, theme);
    else { light(queryMarks, q, theme); light(keyMarks, k, theme); }
    focus.replaceChildren();
    if (q === null && k === null) return;
    // One cell is one line; a whole row or column is all its lines.
    const meant = (i) => (q === null || Math.floor(i / K) === q) && (k === null || i % K === k);
    const chosen = weights.map((weight, i) => (meant(i) ? weight : 0));
    const shown = (weight) => (q !== null && k !== null ? weight > 0 : drawn(weight));
    focus.append(...paths(chosen, 1, (i, weight) => shown(weight) && curveOf(i), stroke(theme.mark)));
    chosen.forEach((weight, i) => {
      if (!shown(weight)) return;
      focus.append(q !== null
        ? number(columns, to[i % K], width - numbers + 4, "start", weight)
        : number(rows, from[Math.floor(i / K)], numbers - 4, "end", weight));
    });
  };
  const hit = (x, y) => {
    const near = (axis, places, inside) => {
      if (axis.kind === "tokens" && !inside) return null;
      let found = null, least = axis.kind === "points" ? 14 : step / 2;
      places.forEach(([px, py], i) => {
        const apart = axis.kind === "points" ? Math.hypot(px - x, py - y) : Math.abs(py - y);
        if (apart <= least) { found = i; least = apart; }
      });
      return found;
    };
    const q = near(rows, from, x <= left);
    if (q !== null) return { q, k: null };
    const k = near(columns, to, x >= width - right);
    return k === null ? null : { q: null, k };
  };
  return { node, width, height, hit, show };
}

// The points that are looked at, or look, grow with their weight.
function swell(marks, weightOf) {
  const found = marks.map((_, i) => weightOf(i)), most = Math.max(...found, 1e-9);
  marks.forEach((mark, i) => mark.setAttribute("r", r1(4 + 6 * (found[i] / most))));
}

const r1 = (x) => Math.round(x * 10) / 10;

// Points in a square, with the proportions they have.
function placer(points, left, top, side) {
  const spread = [0, 1].map((c) => points.map((point) => point[c]));
  const low = spread.map((values) => Math.min(...values)), high = spread.map((values) => Math.max(...values));
  const span = Math.max(high[0] - low[0], high[1] - low[1]) || 1;
  const shift = [0, 1].map((c) => (span - (high[c] - low[c])) / 2);
  return ([x, y]) => [left + ((x - low[0] + shift[0]) / span) * side, top + (1 - (y - low[1] + shift[1]) / span) * side];
}

// ---- numbers by layer and head ----

function measurePanel(group, name, { theme, title, chosen }) {
  const H = Math.max(...group.maps.map((map) => map.H));
  const values = group.maps.map((map) => map[name]);
  const most = Math.max(...values.flat(), 1e-9);
  const labels = group.maps.map((map) => map.layer || "heads");
  const left = Math.ceil(widest(labels, 13) + 12), top = 52, w = 52, h = 30, width = left + H * w + 8;
  const node = svg("g");
  node.append(heading(title, theme, width));
  for (let head = 0; head < H; head++) {
    node.append(write(left + (head + 0.5) * w, 38, String(head), theme.muted, 12, { "text-anchor": "middle" }));
  }
  values.forEach((row, i) => {
    node.append(write(left - 8, top + (i + 0.5) * h, labels[i], theme.ink, 13, { "text-anchor": "end" }));
    row.forEach((value, head) => {
      const colour = theme.ramp[shadeOf(0.75 * value, most)];
      const bright = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] > 140;
      const here = i === chosen.layer && head === chosen.head;
      node.append(
        svg("rect", {
          x: left + head * w + 1, y: top + i * h + 1, width: w - 2, height: h - 2, rx: 4, fill: css(colour),
          stroke: here ? theme.mark : theme.line, "stroke-width": here ? 2.5 : 1,
        }),
        write(left + (head + 0.5) * w, top + (i + 0.5) * h, value.toFixed(2), bright ? "#10131a" : "#ffffff", 12,
          { "text-anchor": "middle" }));
    });
  });
  const hit = (x, y) => {
    const layer = Math.floor((y - top) / h), head = Math.floor((x - left) / w);
    return values[layer] && values[layer][head] !== undefined ? { layer, head } : null;
  };
  return { node, width, height: top + values.length * h + 8, hit, show: () => {} };
}

// ---- bars: the alternatives of a step, or where it looks ----

function barsPanel(bars, { theme, room, title }) {
  const size = 13, h = 24, top = 30;
  const left = Math.ceil(widest(bars.map((bar) => shorten(bar.label)), size) + 14);
  const width = Math.round(clamp(room, left + 160, left + 420)), across = width - left - 60;
  const node = svg("g");
  node.append(heading(title, theme, width));
  bars.forEach((bar, i) => {
    const y = top + i * h, place = { x: left, y: y + 4, height: h - 8, rx: 3 };
    node.append(
      label(bar.label, {
        x: left - 8, y: y + h / 2, "text-anchor": "end", "dominant-baseline": "central", "font-size": size,
        fill: bar.chosen ? theme.mark : theme.ink, "font-weight": bar.chosen ? 700 : 400,
      }),
      svg("rect", { ...place, width: across, fill: theme.line, "fill-opacity": 0.5 }),
      svg("rect", { ...place, width: Math.max(across * bar.value, 1).toFixed(1), fill: bar.chosen ? theme.mark : theme.select }),
      write(width - 52, y + h / 2, three(bar.value), theme.ink, 12));
  });
  return { node, width, height: top + bars.length * h + 6, hit: () => null, show: () => {} };
}

// ---- small maps for the overview ----

// From the stored levels as they are: a long sentence has millions of them.
function thumbnail(canvas, { Q, K, levels, most }, theme, ceiling) {
  if (!Q || !K) return;
  canvas.width = K;
  canvas.height = Q;
  // Magnified cells keep their edges; a map larger than its thumbnail must be averaged, or lines fall out.
  canvas.style.imageRendering = Math.max(Q, K) <= 40 ? "pixelated" : "auto";
  canvas.style.aspectRatio = String(clamp(K / Q, 0.5, 2));
  const context = canvas.getContext("2d");
  const image = context.createImageData(K, Q), pixels = new Uint32Array(image.data.buffer);
  const colours = Uint32Array.from({ length: most + 1 }, (_, level) => {
    const [r, g, b] = theme.ramp[shadeOf(level / most, ceiling)];
    return new Uint32Array(new Uint8ClampedArray([r, g, b, 255]).buffer)[0];
  });
  for (let i = 0; i < pixels.length; i++) pixels[i] = colours[levels[i]];
  context.putImageData(image, 0, 0);
}

// ---- panels beside one another, or below one another where there is no room ----

function compose(panels, theme, room, name) {
  const gap = 28, margin = 8;
  const beside = panels.reduce((sum, panel) => sum + panel.width + gap, -gap) + 2 * margin <= room;
  let x = margin, y = margin, width = 0, height = 0;
  const places = panels.map((panel) => {
    const place = { panel, x, y };
    width = Math.max(width, x + panel.width + margin);
    height = Math.max(height, y + panel.height + margin);
    if (beside) x += panel.width + gap; else y += panel.height + gap;
    return place;
  });
  const drawing = sheet(width, height, theme, name);
  for (const { panel, x: left, y: top } of places) {
    panel.node.setAttribute("transform", "translate(" + left + " " + top + ")");
    drawing.append(panel.node);
  }
  const hit = (px, py) => {
    for (const { panel, x: left, y: top } of places) {
      const inside = px >= left && py >= top && px <= left + panel.width && py <= top + panel.height;
      const found = inside && panel.hit(px - left, py - top);
      if (found) return found;
    }
    return null;
  };
  return { drawing, hit, show: (q, k) => panels.forEach((panel) => panel.show(q, k)) };
}

function sheet(width, height, theme, name) {
  const drawing = svg("svg", {
    viewBox: "0 0 " + width + " " + height, width, height, role: "img", "aria-label": name, "font-family": FONT,
  });
  drawing.append(svg("rect", { width, height, fill: theme.panel }));
  return drawing;
}

return { matrixPanel, linesPanel, measurePanel, barsPanel, thumbnail, compose, sheet, themeOf, shorten, three, clamp };
})();
