"use strict";
// The one place where text enters the document: as text, never as markup.
const AttentionElements = (() => {

const SVG = "http://www.w3.org/2000/svg";
// What no XML file may hold; a token may.
const NOT_XML = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g;

function html(tag, attributes = {}, text = null, children = []) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  element.append(...children);
  return element;
}

function svg(tag, attributes = {}, text = null) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text.replace(NOT_XML, "\ufffd");
  return element;
}

return { html, svg };
})();
