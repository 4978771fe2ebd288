// The attention viewer on this page: the one of saved pages, with a document from the server.
import { attention, savedPage } from "./asking.js";

export class Inside {
  // tell(problem or null) shows what went wrong.
  constructor({ section, name, root, button, tell }) {
    Object.assign(this, { section, name, root, button, tell });
    this.viewer = null;
    this.asking = null;
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
      const state = this.viewer ? { ...this.viewer.state, step: 0 } : {};
      this.viewer?.close();
      this.viewer = AttentionViewer.open(this.root, content, { page: saved(content), state, embedded: true });
      await this.viewer.ready;
    } catch (problem) {
      if (asking.signal.aborted) return;
      this.tell(problem);
    } finally {
      if (asking === this.asking) this.section.removeAttribute("aria-busy");
    }
  }

  close() {
    this.asking?.abort();
    this.section.hidden = true;
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
