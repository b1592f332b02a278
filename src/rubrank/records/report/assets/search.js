// Which groups are shown, and in which order.

import { byId } from "./dom.js";
import { BITS } from "./list.js";
import { parsed, unpack } from "./store.js";

export const STATES = [
  ["", "any state"], ["signal", "with signal"], ["noSignal", "no signal"], ["gated", "touched by a gate"], ["stopped", "a rollout stopped"],
  ["missing", "scores missing"], ["gateMissing", "gate undecided"], ["constant", "a criterion ties all"], ["rulesDisagree", "rules disagree"],
  ["judgesFailed", "judges failed"], ["longestWins", "the longest wins"],
];
export const SORTS = [
  ["file", "as in the file"], ["spread", "largest spread"], ["narrow", "smallest spread"], ["size", "most rollouts"], ["mean", "highest mean reward"],
  ["low", "lowest mean reward"], ["stopped", "most stopped"], ["step", "latest step"], ["id", "name"],
];

/** Numbers of the groups that fit everything but the text. */
export function filtered(store, { criterion, state, step, rule }) {
  const { bits, step: steps, rule: rules, set, flags } = store.columns;
  const setsWith = criterion && store.tables.sets.map(([, ...at]) => at.some((c) => store.tables.criteria[c].name === criterion));
  const flagged = (kind) => store.tables.flags.map((flag) => (criterion ? flag === `${kind}: ${criterion}` : flag.startsWith(`${kind}: `)));
  const constant = flagged("constant"), missing = flagged("missing");
  const tests = {
    "": () => true,
    signal: (g) => !(bits[g] & BITS.noSignal),
    noSignal: (g) => bits[g] & BITS.noSignal,
    gated: (g) => bits[g] & (BITS.stopped | BITS.softened),
    stopped: (g) => bits[g] & BITS.stopped,
    missing: (g) => (criterion ? flags[g].some((f) => missing[f]) : bits[g] & BITS.missing),
    gateMissing: (g) => bits[g] & BITS.gateMissing,
    constant: (g) => flags[g].some((f) => constant[f]),
    rulesDisagree: (g) => bits[g] & BITS.rulesDisagree,
    judgesFailed: (g) => bits[g] & BITS.judgesFailed,
    longestWins: (g) => bits[g] & BITS.longestWins,
  };
  const fits = tests[state], found = [];
  for (let g = 0; g < store.length; g += 1) {
    if (criterion && !setsWith[set[g]]) continue;
    if (step !== "" && steps[g] !== Number(step)) continue;
    if (rule !== "" && rules[g] !== Number(rule)) continue;
    if (fits(g)) found.push(g);
  }
  return found;
}

export function sortGroups(store, found, sort) {
  const c = store.columns;
  const by = (column, sign) => (a, b) => sign * ((c[column][a] ?? -Infinity) - (c[column][b] ?? -Infinity)) || a - b;
  const orders = {
    file: (a, b) => a - b, spread: by("spread", -1), narrow: by("spread", 1), size: by("size", -1), mean: by("mean", -1), low: by("mean", 1),
    stopped: by("stopped", -1), step: by("step", -1), id: (a, b) => (c.id[a] < c.id[b] ? -1 : c.id[a] > c.id[b] ? 1 : a - b),
  };
  return found.sort(orders[sort]);
}

/** Texts of a packed group that are searched, besides its name and title. */
function* textsOf(raw) {
  for (const key of ["m", "t", "h", "iw"]) for (const text of raw[key] || []) yield typeof text === "string" ? text : text[0];
  for (const row of raw.e || []) yield* row;
}

/** Search names and titles at once, then all texts chunk by chunk; `report(matches, done, total)` is called as it goes on. */
export async function searchTexts(store, candidates, query, isCurrent, report) {
  const wanted = query.toLowerCase(), hit = new Set(), chunks = new Map();
  for (const g of candidates) {
    if (store.columns.id[g].toLowerCase().includes(wanted) || store.columns.title[g].toLowerCase().includes(wanted)) hit.add(g);
    else {
      const number = Math.floor(g / store.perChunk);
      if (!chunks.has(number)) chunks.set(number, []);
      chunks.get(number).push(g);
    }
  }
  report(hit, 0, chunks.size);
  let done = 0, last = performance.now();
  for (const [number, some] of chunks) {
    if (!byId(`chunk-${number}`)) await parsed;
    const packed = await unpack(byId(`chunk-${number}`));
    if (!isCurrent()) return;
    for (const g of some) {
      for (const text of textsOf(packed[g % store.perChunk])) if (text.toLowerCase().includes(wanted)) { hit.add(g); break; }
    }
    done += 1;
    if (performance.now() - last > 120 || done === chunks.size) {
      report(hit, done, chunks.size);
      await new Promise((resolve) => setTimeout(resolve));
      last = performance.now();
    }
  }
}
