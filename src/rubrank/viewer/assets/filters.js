// Which groups a list shows, and in which order. The numbers of STATE are those of rubrank/viewer/group_data.py.

export const STATE = {
  noSignal: 1,
  stopped: 2,
  softened: 4,
  missing: 8,
  rulesDisagree: 16,
  gateMissing: 32,
  longestWins: 64,
  judgesFailed: 128,
  constant: 256,
  unreadable: 32768,
};

export const STATE_CHOICES = [
  ["", "any state"],
  ["signal", "with signal"],
  ["noSignal", "no signal"],
  ["gated", "affected by a gate"],
  ["stopped", "stopped by a gate"],
  ["softened", "softened by a gate"],
  ["missing", "scores missing"],
  ["judgesFailed", "judges failed"],
  ["gateMissing", "gate undecided"],
  ["constant", "a criterion ties all"],
  ["rulesDisagree", "rules disagree"],
  ["longestWins", "the longest wins"],
];
export const SORT_CHOICES = [
  ["file", "as in the file"],
  ["spread", "largest spread"],
  ["narrow", "smallest spread"],
  ["size", "most rollouts"],
  ["stopped", "most stopped"],
  ["latest", "latest step"],
  ["first", "first step"],
  ["id", "name"],
];
export const SCORE_CHOICES = [
  ["any", "any"],
  ["low", "a rollout at most"],
  ["high", "a rollout at least"],
  ["differs", "tells apart"],
  ["constant", "ties all"],
];

function hasState(states, wanted) {
  if (wanted === "") return true;
  if (wanted === "signal") return !(states & STATE.noSignal);
  if (wanted === "gated") return Boolean(states & (STATE.stopped | STATE.softened));
  return Boolean(states & STATE[wanted]);
}

function scoreFits(kind, low, high, value) {
  if (kind === "low") return low <= value;
  if (kind === "high") return high >= value;
  if (kind === "differs") return low !== high;
  if (kind === "constant") return low === high;
  return true;
}

/** "10" → [10, 10], "10-14" → [10, 14]. */
function readSteps(text) {
  const [first, last] = String(text).split("-").map(Number);
  return [first, last ?? first];
}

/**
 * Numbers of the groups that fit. rows: the index; scores: {groups, low, high} of the chosen criterion, or null;
 * hits: a Set of groups that hold the searched words, or null.
 */
export function filterGroups(rows, filter, scores, hits) {
  const withCriterion = filter.criterion && rows.criteria_sets.map((names) => names.includes(filter.criterion));
  const scoreKind = filter.criterion && filter.score && filter.score !== "any" ? filter.score : "";
  let fitting = null;
  if (scoreKind && scores) {
    const value = Number(filter.value || 0);
    fitting = new Set(scores.groups.filter((_, i) => scoreFits(scoreKind, scores.low[i], scores.high[i], value)));
  }
  const [firstStep, lastStep] = filter.step ? readSteps(filter.step) : [null, null];
  const matching = [];
  for (let g = 0; g < rows.id.length; g += 1) {
    const states = rows.states[g];
    if (states & STATE.unreadable) {
      if (isUnfiltered(filter)) matching.push(g);
      continue;
    }
    if (!hasState(states, filter.state || "")) continue;
    if (withCriterion && !withCriterion[rows.criteria[g]]) continue;
    if (fitting && !fitting.has(g)) continue;
    if (filter.step && !(rows.step[g] !== null && rows.step[g] >= firstStep && rows.step[g] <= lastStep)) continue;
    if (filter.rule_filter && rows.rules[rows.rule[g]] !== filter.rule_filter) continue;
    if (hits && !hits.has(g)) continue;
    matching.push(g);
  }
  return matching;
}

function isUnfiltered(filter) {
  return !filter.state && !filter.criterion && !filter.step && !filter.rule_filter && !filter.query;
}

/** The groups in the chosen order; equal ones stay as in the file. */
export function sortGroups(rows, groups, sort) {
  const compareBy = (column, sign, ifNull) => (a, b) => {
    const difference = (rows[column][a] ?? ifNull) - (rows[column][b] ?? ifNull);
    return sign * difference || a - b;
  };
  const orders = {
    spread: compareBy("spread", -1, 0),
    narrow: compareBy("spread", 1, 0),
    size: compareBy("size", -1, 0),
    stopped: compareBy("stopped", -1, 0),
    latest: compareBy("step", -1, -Infinity),
    first: compareBy("step", 1, Infinity),
    id: (a, b) => rows.id[a].localeCompare(rows.id[b]) || a - b,
  };
  return orders[sort] ? groups.sort(orders[sort]) : groups;
}
