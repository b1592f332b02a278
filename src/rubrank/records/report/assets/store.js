// The data of the page: gzip in base64, unpacked when needed; of the groups' chunks the last ones are kept.

import { byId } from "./dom.js";
import { BITS } from "./list.js";
import { unfold } from "./words.js";

const KEPT_CHUNKS = 24;

const COLUMNS = ["id", "step", "size", "spread", "mean", "bits", "stopped", "set", "rule", "flags", "title", "best"];

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const letters = atob(base64), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i += 1) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

export async function unpack(element) {
  const stream = new Blob([bytesOf(element.textContent)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

export const parsed = new Promise((resolve) => {
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", resolve);
  else resolve();
});

export class Store {
  constructor(index) {
    this.tables = index;
    this.perChunk = index.chunk;
    this.columns = Object.fromEntries(COLUMNS.map((name, i) => [name, index.columns[i]]));
    this.length = this.columns.id.length;
    this.chunks = new Map();
  }

  get chunkCount() {
    return Math.ceil(this.length / this.perChunk);
  }

  has(g, bit) {
    return (this.columns.bits[g] & bit) !== 0;
  }

  criteriaOf(g) {
    return this.tables.sets[this.columns.set[g]].slice(1).map((c) => this.tables.criteria[c]);
  }

  /** The packed groups of a chunk; chunks stand behind this script, so the page may still be arriving. */
  async chunk(number) {
    if (this.chunks.has(number)) {
      const known = this.chunks.get(number);
      this.chunks.delete(number);
      this.chunks.set(number, known);
      return known;
    }
    if (!byId(`chunk-${number}`)) await parsed;
    const found = unpack(byId(`chunk-${number}`));
    this.chunks.set(number, found);
    if (this.chunks.size > KEPT_CHUNKS) this.chunks.delete(this.chunks.keys().next().value);
    return found;
  }

  async group(g) {
    const raw = (await this.chunk(Math.floor(g / this.perChunk)))[g % this.perChunk];
    return unfold(raw, this.columns.id[g], this.has(g, BITS.noSignal), this.tables);
  }
}
