// Texts of people and models: what was found is marked, what was cut says so, tool calls and turns read as a conversation.

import { chip, h } from "./dom.js";
import { count, plural } from "./numbers.js";

const MOST_MARKS = 400;

/** The text in pieces, with a <mark> around everything that was searched for. */
export function marked(text, query) {
  const wanted = (query || "").trim();
  if (!wanted) return [text];
  const found = new RegExp(wanted.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&"), "giu"), pieces = [];
  let end = 0;
  for (const match of text.matchAll(found)) {
    if (pieces.length > 2 * MOST_MARKS) break;
    pieces.push(text.slice(end, match.index), h("mark", {}, match[0]));
    end = match.index + match[0].length;
  }
  return [...pieces, text.slice(end)];
}

/** A text as it is; [beginning, length] where it was cut. */
export function textBlock(text, className, query) {
  if (typeof text === "string") return h("pre", { class: className }, text ? marked(text, query) : h("span", { class: "muted" }, "(empty)"));
  const rest = text[1] - [...text[0]].length;
  return h("pre", { class: className }, marked(text[0], query), h("span", { class: "cut" }, ` … ${count(rest)} more characters left out of this report`));
}

export const lengthOf = (text) => (typeof text === "string" ? [...text].length : text[1]);
export const plainText = (text) => (typeof text === "string" ? text : text[0]);

export function reasoningView(text, query) {
  if (text === undefined || text === null || lengthOf(text) === 0) return null;
  const here = query && plainText(text).toLowerCase().includes(query.trim().toLowerCase());
  return h("details", { open: Boolean(here) }, h("summary", {}, `Reasoning, ${count(lengthOf(text))} characters`), textBlock(text, "said thought", query));
}

/** turns: {role, text, reasoning, calls: [{name, given, result, error}]}; one after the other. */
export function conversation(turns, query) {
  const answered = turns.some((turn) => turn.role === "tool"); // by messages of their own
  return h("ol", { class: "turns" }, turns.map((turn) => h("li", { class: `turn ${turn.role === "assistant" || turn.role === "tool" ? turn.role : "other"}` },
    h("b", { class: "role" }, turn.role), turn.error && chip("error", "bad"), reasoningView(turn.reasoning, query),
    (lengthOf(turn.text) > 0 || !turn.calls.length) && textBlock(turn.text, "said", query), turn.calls.map((call) => callView(call, query, answered)))));
}

function callView(call, query, answered) {
  return h("div", { class: call.error ? "call failed" : "call" },
    h("div", { class: "call-name" }, h("code", {}, marked(call.name, query)), call.error && chip("failed", "bad")),
    textBlock(call.given, "said given", query),
    call.result === null ? !answered && h("p", { class: "muted" }, "no result recorded") : [h("span", { class: "came-back" }, "came back"), textBlock(call.result, "said", query)]);
}

/** Such as "3 turns, 2 tool calls". */
export function turnsTitle(turns) {
  const calls = turns.reduce((total, turn) => total + turn.calls.length, 0), failed = turns.reduce((total, turn) => total + turn.calls.filter((call) => call.error).length, 0);
  return [plural(turns.length, "turn"), calls && plural(calls, "tool call"), failed && `${failed} failed`].filter(Boolean).join(", ");
}
