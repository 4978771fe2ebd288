// The attention viewer on this page: the one of saved pages, with a document from the server.
import { attention, savedPage } from "./asking.js";

export class Inside {
  // tell(problem or null) shows what went wrong. old: where it is said that what is drawn is of another sentence.
  constructor({ section, root, button, old, tell }) {
    Object.assign(this, { section, root, button, old, tell });
    this.viewer = null;
    this.asking = null;
    this.state = {};
    this.drawn = null;  // the request whose answer is drawn
    this.wanted = "";  // the one that would be made now, as JSON
  }

  get opened() {
    return !this.section.hidden;
  }

  // Where the reader was in the sentence before is where she is in the next.
  async open(request, key) {
    this.asking?.abort();
    const asking = this.asking = new AbortController();
    this.section.hidden = false;
    this.section.setAttribute("aria-busy", "true");
    this.button.setAttribute("aria-expanded", "true");
    this.tell(null);
    try {
      const content = await attention(request, key, asking.signal);
      if (asking.signal.aborted) return;
      this.clear();
      this.viewer = AttentionViewer.open(this.root, content, { page: saved(content), state: this.state, embedded: true });
      this.drawn = request;
      await this.viewer.ready;
    } catch (problem) {
      if (asking.signal.aborted) return;
      this.clear();
      this.tell(problem);
    } finally {
      if (asking === this.asking) this.section.removeAttribute("aria-busy");
      this.mark();
    }
  }

  // request: what would be looked into now; null while the text changes.
  follow(request) {
    this.wanted = JSON.stringify(request);
    this.mark();
  }

  // What is drawn of another sentence, or of another translation, says so.
  mark() {
    const other = this.drawn !== null && JSON.stringify(this.drawn) !== this.wanted;
    this.section.classList.toggle("old", other);
    this.old.hidden = !other;
    this.old.textContent = other
      ? "This is still of \u201c" + this.drawn.text + "\u201d. Look inside again to see what stands there now." : "";
  }

  clear() {
    if (this.viewer) this.state = { ...this.viewer.state, step: 0 };
    this.viewer?.close();
    this.viewer = this.drawn = null;
  }

  close() {
    this.asking?.abort();
    this.clear();
    this.mark();
    this.tell(null);
    this.section.hidden = true;
    this.section.removeAttribute("aria-busy");
    this.button.setAttribute("aria-expanded", "false");
  }
}

// JSON in which no character is markup, or beyond ASCII.
function inert(content) {
  const escaped = (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0");
  return JSON.stringify(content).replace(/[<>&\u007f-\uffff]/g, escaped);
}

// A document in the page that `regard view` writes: what saving gives.
function saved(content) {
  const title = content.title.replace(/[<>&\u{7f}-\u{10ffff}]/gu, (one) => "&#" + one.codePointAt(0) + ";");
  return async (state) => (await savedPage())
    .replace("<html ", () => '<html data-state="' + inert(state).replaceAll('"', "&quot;") + '" ')
    .replace(/<title>.*<\/title>/, () => "<title>" + title + "</title>")
    .replace(/(id="document">)[^<]*/, (_, begin) => begin + inert(content));
}
