"use strict";
// A saved page: its document and its reader's place are inside it.
(() => {
  const root = document.documentElement;
  const before = root.cloneNode(true);  // before anything is drawn: what saving writes
  const page = (state) => {
    before.dataset.state = JSON.stringify(state);
    return "<!doctype html>\n" + before.outerHTML + "\n";
  };
  const content = JSON.parse(document.getElementById("document").textContent);
  const state = root.dataset.state ? JSON.parse(root.dataset.state) : {};
  window.attentionViewer = AttentionViewer.open(document.getElementById("viewer"), content, { page, state });
})();
