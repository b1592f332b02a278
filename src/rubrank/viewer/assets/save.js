// Saves what is shown as a file: rows as CSV or JSON, a plot as SVG or PNG. Everything is made in the browser.

import { h } from "./dom.js";

const STYLES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity",
  "font-size", "font-family", "font-weight", "text-anchor", "visibility",
];
const SCALE = 3; // pixels of a PNG for one of the plot

/** Save a text or a Blob as a file of the browser's downloads. */
export function download(name, type, content) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** Rows of cells; a cell that a spreadsheet would compute is made a text. */
export function csvOf(rows) {
  return rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

function csvCell(value) {
  if (value === null || value === undefined) return "";
  let text = String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const fileName = (text) => text.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 80) || "plot";

/** The plot with its colours in it, so that it looks the same outside of the page. */
function svgText(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")];
  const copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((element, i) => {
    const styles = getComputedStyle(element);
    for (const name of STYLES) copies[i].setAttribute(name, styles.getPropertyValue(name));
  });
  const [, , width, height] = svg.getAttribute("viewBox").split(" ");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.prepend(makeGround(svg, width, height));
  return new XMLSerializer().serializeToString(copy);
}

/** A rectangle in the page's colour, to lie behind the plot. */
function makeGround(svg, width, height) {
  const rect = document.createElementNS(svg.namespaceURI, "rect");
  const colour = getComputedStyle(document.documentElement).getPropertyValue("background-color");
  for (const [key, value] of Object.entries({ width, height, fill: colour })) rect.setAttribute(key, value);
  return rect;
}

/** The plot as a Blob of PNG. */
async function drawPng(svg) {
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(svg))}`;
  await image.decode();
  const canvas = h("canvas", { width: SCALE * width, height: SCALE * height });
  canvas.getContext("2d").drawImage(image, 0, 0, SCALE * width, SCALE * height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** Two small buttons that save a plot. */
export function plotButtons(title, svg) {
  const button = (kind, save) => h("button", {
    type: "button",
    class: "tiny",
    title: `Save this plot as ${kind}`,
    "aria-label": `Save ${title} as ${kind}`,
    onclick: save,
  }, kind);
  const saveSvg = () => download(`${fileName(title)}.svg`, "image/svg+xml", svgText(svg));
  const savePng = async () => download(`${fileName(title)}.png`, "image/png", await drawPng(svg));
  return h("span", { class: "save" }, button("SVG", saveSvg), button("PNG", savePng));
}
