// A text and its translation, sentence by sentence: drawn word by word, so that words show what they looked at.
import { placesOf } from "./words.js";

const { html } = AttentionElements;
const SOME = 4;  // words named at a time
const percent = (weight) => Math.round(100 * weight) + " %";

export class Result {
  // output: where the translation stands. behind: a copy of the text under the field it is typed in. reading: what a word
  // looked at, in words. turned(): the sentence in question, or what is known of it, has changed.
  constructor({ output, behind, reading, turned }) {
    Object.assign(this, { output, behind, reading, turned });
    this.text = "";
    this.after = "";
    this.sentences = [];
    this.earlier = [];  // of the text before, while another is translated
    this.current = 0;
    this.pointed = null;
    this.finished = true;
    this.listen();
  }

  get sentence() {
    return this.sentences[Math.min(this.current, this.sentences.length - 1)];
  }

  get translation() {
    return this.sentences.map((one) => one.before + saidBy(one).text).join("") + this.after;
  }

  // ---- what comes ----

  // Another text is being translated: what stands there is of the one before it, until its place is taken.
  begin(text) {
    this.write(text);
    this.earlier = [...this.sentences, ...this.earlier.slice(this.sentences.length)];
    Object.assign(this, { text, cursor: 0, sentences: [], after: "" });
    this.draw();
  }

  add(line) {
    if (!line.translations) {
      this.after += line.after;
      return;
    }
    const start = Math.max(this.text.indexOf(line.source, this.cursor), this.cursor);
    this.cursor = start + line.source.length;
    const sentence = { ...line, start, end: this.cursor, chosen: 0 };
    // A choice among the translations of the same sentence is kept.
    const same = this.earlier.find((one) => one.chosen && one.source === line.source);
    if (same) sentence.chosen = Math.max(line.translations.findIndex((one) => one.text === saidBy(same).text), 0);
    this.sentences.push(sentence);
    this.drawSoon();
  }

  end(caret) {
    this.finished = true;
    this.earlier = [];
    this.current = this.sentenceAt(caret);
    this.draw();
    this.turned();
  }

  // There is nothing to translate in this text.
  clear(text) {
    this.write(text);
    Object.assign(this, { text, sentences: [], earlier: [], after: "", current: 0, finished: true });
    this.draw();
    this.turned();
  }

  choose(number) {
    this.sentence.chosen = number;
    this.draw();
    this.turned();
  }

  sentenceAt(place) {
    const after = this.sentences.findIndex((one) => place <= one.end);
    return after < 0 ? Math.max(this.sentences.length - 1, 0) : after;
  }

  // ---- drawing ----

  // The text under the field, without words until they are known. The last line is a line even where it is empty.
  write(text) {
    this.finished = false;
    this.behind.replaceChildren(text + "\n");
    this.sourceWords = [];
    this.point(null);
  }

  drawSoon() {
    this.waiting ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.waiting);
    this.waiting = 0;
    this.point(null);
    this.targetWords = [];
    const fresh = this.sentences.flatMap((one, i) => [one.before, this.drawTarget(one, i)]);
    const stale = this.earlier.slice(this.sentences.length)
      .map((one) => html("span", { class: "stale" }, one.before + saidBy(one).text));
    this.output.replaceChildren(...fresh, ...stale, this.after);
    if (this.sentences.length) this.output.tabIndex = 0; else this.output.removeAttribute("tabindex");
    if (this.finished) this.drawSource();
    this.mark();
  }

  drawTarget(sentence, i) {
    const said = saidBy(sentence), words = said.alignment ? said.alignment.target_words : said.text.split(/\s+/);
    const [pieces, spans] = wordSpans(said.text, words, i);
    this.targetWords.push(spans);
    return html("span", { class: "sentence" + (said.alignment ? "" : " plain") }, null, pieces);
  }

  drawSource() {
    this.sourceWords = [];
    const parts = [];
    let from = 0;
    this.sentences.forEach((one, i) => {
      const { alignment } = saidBy(one);
      const [pieces, spans] = wordSpans(one.source, alignment ? alignment.source_words : [], i);
      parts.push(this.text.slice(from, one.start), ...pieces);
      from = one.end;
      this.sourceWords.push(spans);
    });
    this.behind.replaceChildren(...parts, this.text.slice(from) + "\n");
  }

  // ---- pointing ----

  listen() {
    this.output.addEventListener("pointerover", (event) => {
      const word = event.target.closest(".word");
      if (word) this.pointAt(word, "target");
    });
    this.output.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") this.point(null);
    });
    this.output.addEventListener("click", (event) => {
      const word = event.target.closest(".word");
      if (!word) return;
      this.turnTo(Number(word.dataset.sentence));
      this.pointAt(word, "target");
    });
    this.output.addEventListener("keydown", (event) => this.walk(event));
    this.output.addEventListener("blur", () => this.point(null));
  }

  turnTo(sentence) {
    if (sentence === this.current) return;
    this.current = sentence;
    this.mark();
    this.turned();
  }

  // Of several sentences the one in question is marked.
  mark() {
    const drawn = this.output.querySelectorAll(".sentence");
    drawn.forEach((one, i) => one.classList.toggle("current", this.finished && drawn.length > 1 && i === this.current));
  }

  // The word of the text at a place on the screen: the field lies above its copy.
  pointUnder(x, y) {
    const word = document.elementsFromPoint(x, y).find((one) => one.matches("#behind .word"));
    if (word) this.pointAt(word, "source"); else this.point(null);
  }

  // The word of the text at a place in it.
  pointFrom(place) {
    const i = this.sentenceAt(place), sentence = this.sentences[i];
    if (!sentence || !this.finished) return;
    const places = placesOf(saidBy(sentence).alignment?.source_words || [], sentence.source) || [];
    const w = places.findIndex(([start, end]) => sentence.start + start <= place && place <= sentence.start + end);
    this.point(w < 0 ? null : { i, w, side: "source" });
    this.turnTo(i);
  }

  pointAt(word, side) {
    this.point({ i: Number(word.dataset.sentence), w: Number(word.dataset.word), side });
  }

  walk(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || !this.sentences.length) return;
    const at = this.pointed?.side === "target" ? this.pointed : { i: this.current, w: -1 };
    const words = this.sentences.flatMap((_, i) => this.targetWords[i].map((_, w) => ({ i, w })));
    const here = words.findIndex((one) => one.i === at.i && one.w === at.w);
    const first = words.findIndex((one) => one.i === at.i);
    const to = {
      ArrowRight: here < 0 ? first : here + 1, ArrowLeft: here < 0 ? first : here - 1, Home: 0, End: words.length - 1,
      ArrowDown: words.findIndex((one) => one.i > at.i), ArrowUp: words.findLastIndex((one) => one.i < at.i && one.w === 0),
    }[event.key];
    if (event.key === "Escape") this.point(null);
    if (to === undefined) return;
    event.preventDefault();
    if (!words[to]) return;
    this.point({ ...words[to], side: "target" });
    this.turnTo(words[to].i);
    this.targetWords[words[to].i][words[to].w].scrollIntoView({ block: "nearest" });
  }

  // at: {i, w, side}, a word of a sentence on the side of its source or of its target; null: none.
  point(at) {
    for (const lit of this.lit || []) {
      lit.classList.remove("pointed", "looked");
      lit.style.removeProperty("--weight");
    }
    this.lit = [];
    this.pointed = at;
    const sentence = at && this.sentences[at.i], alignment = sentence && saidBy(sentence).alignment;
    if (!alignment) {
      this.reading.replaceChildren();
      return;
    }
    const ours = at.side === "target", spans = { source: this.sourceWords[at.i] || [], target: this.targetWords[at.i] };
    const looks = ours ? alignment.weights[at.w] : lookedAtBy(alignment, at.w);
    const others = ours ? spans.source : spans.target;
    this.light(spans[at.side][at.w], "pointed");
    for (const [w, weight] of looks) this.light(others[w], "looked", weight);
    this.tell(at, alignment, looks);
  }

  light(span, name, weight = 1) {
    if (!span) return;
    span.classList.add(name);
    span.style.setProperty("--weight", weight.toFixed(3));
    this.lit.push(span);
  }

  tell({ w, side }, { source_words, target_words }, looks) {
    const ours = side === "target", names = ours ? source_words : target_words;
    const strongest = [...looks].sort((a, b) => b[1] - a[1]).slice(0, SOME);
    const told = strongest.flatMap(([k, weight], i) => [i ? ", " : "", html("bdi", {}, names[k]), " " + percent(weight)]);
    const word = html("bdi", {}, (ours ? target_words : source_words)[w]);
    if (!told.length) told.push("nothing in particular");
    this.reading.replaceChildren(word, ours ? " looked at " : " was looked at by ", ...told);
  }
}

export function saidBy(sentence) {
  return sentence.translations[sentence.chosen];
}

function lookedAtBy({ weights }, source) {
  return weights.flatMap((looks, t) => looks.filter(([s]) => s === source).map(([, weight]) => [t, weight]));
}

// A text as spans for its words and strings between them; without spans where the words are not found.
function wordSpans(text, words, sentence) {
  const places = placesOf(words, text);
  if (!places) return [[text], []];
  let from = 0;
  const pieces = [], spans = [];
  places.forEach(([start, end], w) => {
    const span = html("span", { class: "word" }, text.slice(start, end));
    Object.assign(span.dataset, { sentence, word: w });
    pieces.push(text.slice(from, start), span);
    spans.push(span);
    from = end;
  });
  return [[...pieces, text.slice(from)], spans];
}
