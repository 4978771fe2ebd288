// The translations of one sentence, best first, to choose from.
import { saidBy } from "./result.js";
import { differing } from "./words.js";

const { html } = AttentionElements;
const split = (text) => text.split(/\s+/).filter(Boolean);
const minus = (number) => number.toFixed(2).replace("-", "\u2212");

export class Ways {
  // chosen(number) is called when another translation is.
  constructor({ section, name, source, choices, chosen }) {
    Object.assign(this, { section, name, source, choices, chosen });
  }

  draw({ sentences, sentence, current }) {
    this.section.hidden = !sentence;
    if (!sentence) return;
    const several = sentences.length > 1, only = sentence.translations.length < 2;
    this.name.textContent = several ? "Sentence " + (Math.min(current, sentences.length - 1) + 1) + " of " + sentences.length
      : only ? "Translation" : "Translations";
    this.source.hidden = !several;
    this.source.textContent = sentence.source;
    const focused = this.choices.contains(document.activeElement);
    const best = split(sentence.translations[0].text);
    this.choices.replaceChildren(...sentence.translations.map((one, number) => this.choice(sentence, one, number, best)));
    if (focused) this.choices.querySelector("input:checked").focus();
  }

  choice(sentence, one, number, best) {
    const input = html("input", { type: "radio", name: "way", value: number });
    input.checked = number === sentence.chosen;
    input.addEventListener("change", () => this.chosen(number));
    const words = split(one.text), differs = differing(best, words);
    const text = words.flatMap((word, i) => [i ? " " : "", differs[i] ? html("b", {}, word) : word]);
    if (!words.length) text.push(html("i", {}, "nothing"));
    const sure = html("span", { class: "sure" }, null, [
      html("span", { class: "probability", title: "how probable the model holds it" }, probability(one.log_prob)),
      html("span", { class: "score", title: "what the search ranks by" }, "score " + minus(one.score)),
    ]);
    return html("label", {}, null, [input, html("span", { class: "said", dir: "auto" }, null, text), sure]);
  }
}

function probability(log) {
  const value = 100 * Math.exp(log);
  if (value < 0.1) return "< 0.1 %";
  return (value < 1 ? value.toFixed(1) : Math.round(value)) + " %";
}

// What the viewer is asked to look into: what the model says, or what else was chosen.
export function lookOf(sentence, model) {
  const request = { text: sentence.source, model };
  return sentence.chosen ? { ...request, translation: saidBy(sentence).text } : request;
}
