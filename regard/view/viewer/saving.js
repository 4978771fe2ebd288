"use strict";
// What is on the screen as a file: SVG, PNG, or the whole page.
const AttentionSaving = (() => {

const DENSITY = 2;  // pixels of a PNG for each of the screen
const MOST_PIXELS = 60e6;

function offer(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function textOf(drawing) {
  return new XMLSerializer().serializeToString(drawing);
}

function saveSvg(drawing, name) {
  offer(new Blob([textOf(drawing)], { type: "image/svg+xml" }), name + ".svg");
}

async function savePng(drawing, name) {
  const width = Number(drawing.getAttribute("width")), height = Number(drawing.getAttribute("height"));
  const density = Math.min(DENSITY, Math.sqrt(MOST_PIXELS / (width * height)));
  const picture = new Image();
  picture.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(textOf(drawing));
  await picture.decode();
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(width * density);
  canvas.height = Math.ceil(height * density);
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  offer(await new Promise((done) => canvas.toBlob(done, "image/png")), name + ".png");
}

// page(state) gives the text of a page that opens where its reader is.
async function savePage(page, state, name) {
  offer(new Blob([await page(state)], { type: "text/html" }), name + ".html");
}

return { saveSvg, savePng, savePage };
})();
