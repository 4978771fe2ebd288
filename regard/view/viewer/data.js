"use strict";
// An attention document (docs/viewer.md) as the drawings ask for it.
// Shape letters: H heads, Q queries (rows, what looks), K keys (columns, what is looked at).
const AttentionData = (() => {

const KEPT = 6;  // examples whose weights stay unpacked

async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// One sentence or set, its weights unpacked.
class Example {
  constructor(content, levels, bytes) {
    this.content = content;
    this.levels = levels;
    this.bytes = bytes;
    this.steps = content.steps;
    this.groups = [];  // {title, maps}: a map for each layer
    for (const map of content.maps) {
      let group = this.groups.find((one) => one.title === map.group);
      if (!group) this.groups.push(group = { title: map.group, maps: [] });
      group.maps.push(map);
    }
  }

  // The group that goes from the output to the input, if there is one: where a step of decoding looks.
  get crossing() {
    return this.groups.find((group) => group.title === "Cross-attention")
      || this.groups.find((group) => group.maps[0].rows !== group.maps[0].columns);
  }

  matrixAt(map, place) {
    const rows = this.content.axes[map.rows], columns = this.content.axes[map.columns];
    const Q = rows.items.length, K = columns.items.length;
    const stored = this.bytes.subarray(place, place + Q * K);
    return { rows, columns, Q, K, weights: Float32Array.from(stored, (level) => level / this.levels) };
  }

  // One head, or their mean (of the stored weights).
  matrix(map, head) {
    const { rows, columns, Q, K } = this.matrixAt(map, map.at);
    if (head !== "mean") return this.matrixAt(map, map.at + head * Q * K);
    const weights = new Float32Array(Q * K);
    for (let h = 0; h < map.H; h++) {
      const start = map.at + h * Q * K;
      for (let i = 0; i < weights.length; i++) weights[i] += this.bytes[start + i] / this.levels / map.H;
    }
    return { rows, columns, Q, K, weights };
  }

  // One head as it is stored.
  levelsOf(map, head) {
    const Q = this.content.axes[map.rows].items.length, K = this.content.axes[map.columns].items.length;
    return { Q, K, levels: this.bytes.subarray(map.at + head * Q * K, map.at + (head + 1) * Q * K), most: this.levels };
  }

  rollout(map) {
    return map.rollout === null ? null : this.matrixAt(map, map.rollout);
  }

  alignment() {
    return this.content.alignment && this.matrix(this.content.alignment, "mean");
  }
}

class Document {
  constructor(content) {
    if (content.format !== "regard-attention" || content.version !== 1) {
      throw new Error("this is not an attention document of version 1");
    }
    this.content = content;
    this.unpacked = new Map();
  }

  async example(number) {
    let found = this.unpacked.get(number);
    if (!found) {
      const content = this.content.examples[number];
      found = new Example(content, this.content.levels, await inflate(content.weights));
      if (this.unpacked.size === KEPT) this.unpacked.delete(this.unpacked.keys().next().value);
      this.unpacked.set(number, found);
    }
    return found;
  }
}

function largest(matrix) {
  return matrix.weights.reduce((most, weight) => Math.max(most, weight), 0);
}

// For each query the key it looks at most, -1 where it looks at nothing.
function strongest(matrix) {
  return Array.from({ length: matrix.Q }, (_, q) => {
    let best = -1, most = 0;
    for (let k = 0; k < matrix.K; k++) {
      if (matrix.weights[q * matrix.K + k] > most) { best = k; most = matrix.weights[q * matrix.K + k]; }
    }
    return best;
  });
}

return { Document, largest, strongest };
})();
