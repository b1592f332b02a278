// Where the page gets its data from: a local server (`rubrank view`), or blocks inside the file (`rubrank report`).
// Both classes have the same methods and return the same plain data, which rubrank/viewer makes in Python.

import { byId } from "./dom.js";
import { recomputeGroup } from "./recompute.js";

const KEPT_BLOCKS = 24;

/** The source that fits: a report has a block with its state in the page. */
export async function openData() {
  const block = byId("data-state");
  return block ? new EmbeddedData(await unpack(block)) : new ServedData();
}

/** Answers of the server. */
class ServedData {
  isLive = true;

  state() { return this.get("state"); }
  index(run, start) { return this.get("index", { run, start }); }
  scores(run, criterion) { return this.get("scores", { run, criterion }); }
  compare(first, second) { return this.get("compare", { first, second }); }
  evaluation() { return this.get("evaluation"); }

  group(run, g, changes) {
    const isChanged = Object.keys(changes).length > 0;
    return this.get("group", { run, g, changes: isChanged ? JSON.stringify(changes) : "" });
  }

  same(run, g) { return this.get("same", { run, g }); }
  common(first, second) { return this.get("common", { first, second }); }
  curves() { return this.get("curves"); }
  summary(run) { return this.get("summary", { run }); }
  exportAddress(run, groups, format) { return this.address("export", { run, groups: writeRanges(groups), format }); }

  /** Searches all texts; calls report(hits, share done) as it goes on, and stops when isCurrent() is false. */
  async search(run, query, isCurrent, report) {
    const hits = new Set();
    let start = 0;
    for (;;) {
      const answer = await this.get("search", { run, query, start });
      if (!isCurrent()) return;
      answer.hits.forEach((g) => hits.add(g));
      start = answer.next;
      const isDone = start >= answer.total;
      report(hits, isDone ? 1 : start / answer.total);
      if (isDone) return;
    }
  }

  /** Accept or correct a verdict; score null removes the label. Returns the labels of the group. */
  async label(label) {
    const body = JSON.stringify(label);
    const headers = { "content-type": "application/json" };
    const { labels } = await this.read(await fetch("/api/label", { method: "POST", headers, body }));
    return labels;
  }

  async get(name, params = {}) {
    return this.read(await fetch(this.address(name, params)));
  }

  /** The data of an answer; raises with the server's own words. */
  async read(answer) {
    const type = answer.headers.get("content-type") || "";
    const data = type.startsWith("application/json") ? await answer.json() : { error: await answer.text() };
    if (!answer.ok) throw new Error(data.error || `the server answered ${answer.status}`);
    return data;
  }

  address(name, params) {
    const filled = Object.entries(params).filter(([, value]) => value !== "" && value !== null && value !== undefined);
    return `/api/${name}?${new URLSearchParams(filled)}`;
  }
}

/** [0, 1, 2, 7] → "0-2,7": addresses stay short. */
function writeRanges(numbers) {
  const sorted = numbers.slice().sort((a, b) => a - b);
  const ranges = [];
  for (const n of sorted) {
    const last = ranges[ranges.length - 1];
    if (last && last[1] === n - 1) last[1] = n;
    else ranges.push([n, n]);
  }
  return ranges.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(",");
}

/** Blocks of gzip in base64 inside the page, unpacked when needed; of the groups' blocks the last ones are kept. */
class EmbeddedData {
  isLive = false;

  constructor(state) {
    this.described = state;
    this.perBlock = state.embedded.groups_per_block;
    this.blocks = new Map();
    this.labels = new Map(); // group → {criterion: a label for each rollout, or null}
  }

  async state() { return this.described; }
  async index(run, start) { return start ? null : unpack(byId("data-index")); }
  async scores(run, criterion) { return (await unpack(byId("data-scores")))[criterion]; }
  async curves() { return [await unpack(byId("data-curves"))]; }
  async summary() { return unpack(byId("data-summary")); }
  async evaluation() { return unpack(byId("data-evaluation")); }

  async group(run, g, changes) {
    const groups = await this.block(Math.floor(g / this.perBlock));
    const group = recomputeGroup(groups[g % this.perBlock], changes);
    return { ...group, labels: this.labels.get(g) || {} };
  }

  /** Labels stay in the page until they are saved as a file. */
  async label({ g, rollout, criterion, score }) {
    const group = await this.group(0, g, {});
    const scores = group.labels[criterion] || group.reward.map(() => null);
    const changed = scores.map((old, i) => (i === rollout ? score : old));
    this.labels.set(g, { ...group.labels, [criterion]: changed });
    return this.labels.get(g);
  }

  /** The labels as the lines of a score table, which `rubrank judge audit --humans` reads. */
  async writeLabels(nameOf) {
    const lines = [];
    for (const [g, labels] of this.labels) {
      const size = Object.values(labels)[0].length;
      for (let rollout = 0; rollout < size; rollout += 1) {
        const scores = Object.fromEntries(Object.entries(labels).map(([name, values]) => [name, values[rollout]]));
        lines.push(JSON.stringify({ group: nameOf(g), rollout, scores }));
      }
    }
    return lines.map((line) => `${line}\n`).join("");
  }

  async search(run, query, isCurrent, report) {
    const words = query.toLowerCase();
    const hits = new Set();
    const total = Math.ceil(this.described.runs[0].groups / this.perBlock);
    let lastReport = performance.now();
    for (let number = 0; number < total; number += 1) {
      const groups = await this.readBlock(number);
      if (!isCurrent()) return;
      groups.forEach((group, i) => {
        if (containsWords(group, words)) hits.add(number * this.perBlock + i);
      });
      if (performance.now() - lastReport > 120 || number === total - 1) {
        report(hits, (number + 1) / total);
        await new Promise((resolve) => setTimeout(resolve));
        lastReport = performance.now();
      }
    }
  }

  async block(number) {
    if (!this.blocks.has(number)) this.blocks.set(number, this.readBlock(number));
    if (this.blocks.size > KEPT_BLOCKS) this.blocks.delete(this.blocks.keys().next().value);
    return this.blocks.get(number);
  }

  async readBlock(number) {
    // Groups stand behind the script, so the page may still be arriving.
    if (!byId(`data-groups-${number}`)) await pageParsed;
    return unpack(byId(`data-groups-${number}`));
  }
}

const pageParsed = new Promise((resolve) => {
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", resolve);
  else resolve();
});

function decodeBase64(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

export async function unpack(element) {
  const stream = new Blob([decodeBase64(element.textContent)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

const SEARCHED = ["id", "prompt", "turns", "responses", "reasoning", "reasons"];

function containsWords(group, words) {
  const holds = (value) => {
    if (typeof value === "string") return value.toLowerCase().includes(words);
    if (Array.isArray(value)) return value.some(holds);
    return value !== null && typeof value === "object" && Object.values(value).some(holds);
  };
  return SEARCHED.some((key) => holds(group[key])) || group.criteria.some((criterion) => holds(criterion.name));
}
