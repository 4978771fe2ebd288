"use strict";
// Every head of every layer, small: buttons through which the arrow keys walk.
const AttentionOverview = (() => {

const { html, svg } = AttentionElements;
const { thumbnail, sheet, shorten, clamp } = AttentionDrawings;

class Overview {
  // opened(group title, layer, head) is called when a head is chosen.
  constructor(opened) {
    this.opened = opened;
    this.rows = [];
    this.element = html("div", { class: "overview" });
    this.element.addEventListener("keydown", (event) => this.walk(event));
  }

  draw(example, chosen, theme, scale) {
    this.example = example;
    this.theme = theme;
    this.rows = [];
    this.element.replaceChildren(...example.groups.map((group) => this.section(group, chosen, scale)));
    const all = this.rows.flat();
    (all.find((thumb) => thumb.getAttribute("aria-pressed") === "true") || all[0] || {}).tabIndex = 0;
  }

  section(group, chosen, scale) {
    const section = html("section", {}, null, [html("h3", { dir: "auto" }, group.title)]);
    group.maps.forEach((map, layer) => {
      const name = map.layer || map.name;
      const heads = Array.from({ length: map.H }, (_, head) => {
        const here = group.title === chosen.group && layer === chosen.layer && head === chosen.head;
        const thumb = this.thumb(group, map, head, here, scale);
        thumb.addEventListener("click", () => this.opened(group.title, layer, head));
        return thumb;
      });
      this.rows.push(heads);
      section.append(html("div", { class: "row", role: "group", "aria-label": group.title + ", " + name }, null, [
        html("span", { class: "row-name" }, name), html("div", { class: "thumbs" }, null, heads),
      ]));
    });
    return section;
  }

  thumb(group, map, head, here, scale) {
    const entropy = map.entropy[head], distance = map.distance && map.distance[head];
    const numbers = "e " + entropy.toFixed(1) + (map.distance ? " d " + distance.toFixed(1) : "");
    const spoken = [
      group.title, map.layer, "head " + head, "entropy " + entropy.toFixed(2) + " bits",
      map.distance ? "distance " + distance.toFixed(2) : "",
    ];
    const canvas = html("canvas", { "aria-hidden": "true" });
    const stored = this.example.levelsOf(map, head);
    const most = scale === "full" ? stored.most : stored.levels.reduce((high, level) => Math.max(high, level), 1);
    thumbnail(canvas, stored, this.theme, most / stored.most);
    const attributes = {
      type: "button", class: "thumb", tabindex: "-1", title: map.name, "aria-pressed": String(here),
      "aria-label": spoken.filter(Boolean).join(", "),
    };
    return html("button", attributes, null, [
      canvas, html("span", { class: "head" }, String(head)), html("span", { class: "measure" }, numbers),
    ]);
  }

  walk(event) {
    const way = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    const row = this.rows.findIndex((heads) => heads.includes(event.target));
    if (!way || row < 0) return;
    event.preventDefault();
    const all = this.rows.flat(), [down, along] = way;
    const other = this.rows[clamp(row + down, 0, this.rows.length - 1)];
    const next = along
      ? all[clamp(all.indexOf(event.target) + along, 0, all.length - 1)]
      : other[Math.min(this.rows[row].indexOf(event.target), other.length - 1)];
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  // The overview as one drawing, for saving.
  drawing() {
    const side = 72, gap = 10, left = 74, drawn = [], { theme } = this;
    const say = (x, y, text, more = {}) => svg("text", { x, y, "font-size": 11, fill: theme.muted, ...more }, text);
    let y = 8, width = 300, row = 0;
    for (const group of this.example.groups) {
      drawn.push(say(8, y + 16, group.title, { "font-size": 14, "font-weight": 600, fill: theme.ink }));
      y += 26;
      for (const map of group.maps) {
        drawn.push(say(8, y + 14, shorten(map.layer || map.name, 10)));
        this.rows[row++].forEach((thumb, head) => {
          const x = left + head * (side + gap), place = { x, y, width: side, height: side };
          const canvas = thumb.querySelector("canvas"), numbers = thumb.querySelector(".measure").textContent;
          const picture = { href: canvas.toDataURL("image/png"), "image-rendering": canvas.style.imageRendering };
          drawn.push(
            svg("image", { ...place, ...picture, preserveAspectRatio: "none" }),
            svg("rect", { ...place, fill: "none", stroke: theme.line }),
            say(x, y + side + 13, head + "  " + numbers, { "font-size": 10 }));
          width = Math.max(width, x + side + gap);
        });
        y += side + 22;
      }
      y += 8;
    }
    const drawing = sheet(width, y, theme, "All heads");
    drawing.append(...drawn);
    return drawing;
  }
}

return { Overview };
})();
