// One rollout's reward in words: the grammar of rubrank/fusion/explain.py, line by line. A test holds the two to the same text.

import { fixed, fixedSigned, general, isNumber, ordinal, sum } from "./numbers.js";

const SMALL = 0.005; // printed with two decimals, anything below would read as 0.00

/** A packed group with names instead of short keys; see report/compact.py. null = missing. */
export function unfold(raw, id, noSignal, tables) {
  const [K, ...at] = tables.sets[raw.c];
  const criteria = at.map((c) => tables.criteria[c]);
  const [passed, factor, lowQuality, stoppedBy, missing, hard, lifted] = raw.p || [];
  const group = {
    id, noSignal, K, criteria, G: raw.r.length,
    scores: raw.s, reasons: raw.e, weights: raw.w, utilities: raw.u, values: raw.v,
    ranking: raw.k || raw.r, reward: raw.r, effective: raw.x,
    observed: new Map(Object.entries(raw.o || {})), // a map: criteria may be called "constructor"
    names: raw.n === undefined ? [] : tables.names[raw.n], attributes: raw.a, contrasts: raw.z, pool: raw.f,
    agreement: raw.ag, sumErrors: raw.er, gamma: raw.g, error: raw.y, taken: raw.q, from: raw.l,
    scale: raw.j, gate: raw.p ? { passed, factor, lowQuality, stoppedBy, missing, hard, lifted } : null,
    others: Object.entries(raw.d || {}).map(([rule, rewards]) => [tables.rules[rule], rewards]),
    prompt: (raw.m || []).map((text, i) => turnOf([raw.b[i], text, ...(raw.ip?.[i] || [])], raw.iw)),
    turns: raw.i?.map((turns) => turns.map((turn) => turnOf(turn, raw.iw))), responses: raw.t, thoughts: raw.h,
  };
  group.values = raw.v || raw.u;
  return group;
}

/** [role, text or its number, number of the reasoning, calls, failed]: texts stand in one list, so that all are cut alike. */
function turnOf([role, text, reasoning, calls, error], texts) {
  const at = (place) => (typeof place === "number" ? texts[place] : place ?? null);
  return { role, text: at(text) ?? "", reasoning: at(reasoning), error: Boolean(error),
    calls: (calls || []).map(([name, given, result, failed]) => ({ name, given: at(given) ?? "", result: at(result), error: Boolean(failed) })) };
}

/** G × G: 1 = row beats column, 0.5 = tie, 0 = loses, null = not compared. */
export function outcomesOf(group, k) {
  const { name, margin, higher } = group.criteria[k];
  if (group.observed.has(name)) return group.observed.get(name);
  const scores = group.scores.map((row) => row[k]);
  return scores.map((a) => scores.map((b) => {
    if (a === null || b === null) return null;
    const ahead = higher ? a - b : b - a;
    // 0.8 − 0.5 is a little more than 0.3 by rounding: a margin of 0.3 ties them all the same.
    const least = margin > 0 ? margin + 4 * Number.EPSILON * Math.max(Math.abs(a), Math.abs(b)) : 0;
    return ahead > least ? 1 : ahead < -least ? 0 : 0.5;
  }));
}

export function isKnown(group, i, k) {
  const observed = group.observed.get(group.criteria[k].name);
  return observed ? observed[i].some((x, j) => j !== i && x !== null) : group.scores[i][k] !== null;
}

/** [wins, ties, losses] of one rollout on one criterion. */
export function standing(group, i, k) {
  const row = outcomesOf(group, k)[i].filter((x, j) => j !== i && x !== null);
  return [row.filter((x) => x > 0.5).length, row.filter((x) => x === 0.5).length, row.filter((x) => x < 0.5).length];
}

function isConstant(group, k) {
  return group.utilities !== undefined && group.utilities.every((row) => row[k] === 0);
}

export function explainRollout(group, i) {
  const lines = [...criteriaLines(group, i), ...togetherLines(group, i), ...attributeLines(group, i), ...gateLines(group, i)];
  return [headline(group, i), ...lines.map((line) => `  ${line}`)].join("\n");
}

function headline(group, i) {
  const reward = group.reward, mine = reward[i];
  const start = `rollout ${i} of group ${group.id}: reward ${fixed(mine)}, `;
  if (group.noSignal) {
    return start + (group.G > 1 ? "same as all others: nothing tells them apart" : "alone in its group: nothing to compare with");
  }
  const better = reward.filter((r) => r > mine).length, same = reward.filter((r) => r === mine).length;
  const tied = same > 1 ? `, with ${same - 1} other${same > 2 ? "s" : ""}` : "";
  return `${start}${ordinal(better + 1)} of ${group.G}${tied}`;
}

function criteriaLines(group, i) {
  const share = (k) => (group.values && group.values[i][k] !== null ? group.weights[k] * group.values[i][k] : NaN);
  const size = (k) => (Number.isNaN(share(k)) ? -1 : Math.round(1e6 * Math.abs(share(k)))); // rounding is no difference
  const order = group.weights.map((_, k) => k).sort((a, b) => size(b) - size(a)); // what mattered most comes first
  const lines = [];
  for (const k of order) {
    if (!group.reward.some((_, j) => isKnown(group, j, k))) continue; // no rollout was scored: another query's criterion
    const { name } = group.criteria[k], compared = group.observed.has(name);
    const weight = group.weights[k] === 1 ? "" : ` (weight ${general(group.weights[k])})`;
    if (!isKnown(group, i, k)) {
      lines.push(`${name}${weight}: ${compared ? "" : "not scored, so "}not compared`);
      continue;
    }
    const added = Math.abs(share(k)) >= SMALL ? ` → ${fixedSigned(share(k))}` : "";
    const score = compared ? "" : `${general(group.scores[i][k])}; `;
    lines.push(`${name}${weight}: ${score}${against(outcomesOf(group, k)[i], i)}${added}`);
  }
  return lines;
}

function togetherLines(group, i) {
  if (!isNumber(group.agreement) || !group.sumErrors || !isNumber(group.sumErrors[i])) return [];
  const total = fixedSigned(Math.round(1e7 * sum(group.weights.map((w, k) => w * group.values[i][k]))) / 1e7);
  return [`together: ${total} (se ${fixed(group.sumErrors[i])}); agreement of the criteria ${fixed(group.agreement)}`];
}

export function against(row, i) {
  const others = row.map((_, j) => j).filter((j) => j !== i && row[j] !== null);
  if (!others.length) return "nothing to compare with";
  const found = [
    ["beats", others.filter((j) => row[j] > 0.5)],
    ["ties", others.filter((j) => row[j] === 0.5)],
    ["loses to", others.filter((j) => row[j] < 0.5)],
  ];
  const all = found.find(([, who]) => who.length === row.length - 1);
  if (all) return `${all[0]} all`;
  return found.filter(([, who]) => who.length).map(([verb, who]) => `${verb} ${listed(who)}`).join("; ");
}

function listed(found) {
  return found.slice(0, 12).join(", ") + (found.length > 12 ? ` and ${found.length - 12} more` : "");
}

function attributeLines(group, i) {
  if (!group.gamma || !group.contrasts || !group.taken || !group.attributes) return [];
  const lines = group.names.map((name, d) => {
    const contrast = group.contrasts[i][d];
    const than = Math.abs(contrast) < SMALL ? "as much as" : contrast > 0 ? "more than" : "less than";
    return `${name}: ${general(group.attributes[i][d])}, ${than} its group; ${takenOut(group, d)}`;
  });
  const made = sum(group.weights.map((w, k) => w * (group.values[i][k] - (group.scale ? group.scale[k] : 1) * group.utilities[i][k])));
  const letter = group.pool === "group" ? " (the paper's letter: by this group alone)" : "";
  return Math.abs(made) < SMALL ? lines : [...lines, `attributes: taking them out made ${fixedSigned(made)}${letter}`];
}

function takenOut(group, d) {
  const taken = group.weights.map((_, k) => (isConstant(group, k) ? 0 : group.taken[k][d]));
  const count = taken.filter((x) => x !== 0).length;
  if (!count) return "nothing taken out";
  const size = taken.map((x, k) => Math.abs(group.weights[k] * x));
  return `${coefficient(group, size.indexOf(Math.max(...size)), d)}; taken out of ${count === 1 ? "1 criterion" : `${count} criteria`}`;
}

/** Such as "γ on Clarity +0.42 (se 0.05, 128 groups)". */
export function coefficient(group, k, d) {
  const text = `γ on ${group.criteria[k].name} ${fixedSigned(group.gamma[k][d])}`, error = group.error && group.error[k][d];
  return isNumber(error) ? `${text} (se ${error.toFixed(2)}, ${group.from[k].toFixed(0)} groups)` : text;
}

function gateLines(group, i) {
  const gate = group.gate;
  // A rule with "+" where the rubric has nothing that gates: there is nothing to say.
  const reads = gate && (gate.hard.length || gate.lowQuality.some(isNumber) || gate.missing.some(Boolean));
  if (!reads) return [];
  if (!gate.passed[i]) {
    const stopped = gate.hard.filter((_, at) => gate.stoppedBy[i].includes(at));
    return [`gate: stopped by ${stopped.join(", ")}, so the reward is 0 instead of ${fixed(group.ranking[i])}`];
  }
  if (gate.factor[i] < 1) {
    const low = gate.lowQuality[i] === null ? "nan" : fixed(gate.lowQuality[i]);
    return [`gate: low quality ${low} (1 = clean), so ${fixed(gate.lifted[i])} is multiplied by ${fixed(gate.factor[i])}`];
  }
  const [ranked, lifted] = [fixed(group.ranking[i]), fixed(gate.lifted[i])];
  const unknown = gate.missing[i] ? ` (${gate.missing[i]} of its scores missing)` : "";
  const why = "above every rollout that was stopped";
  return [`gate: passed${unknown}${ranked === lifted ? "" : `; ${ranked} becomes ${lifted}, ${why}`}`];
}
