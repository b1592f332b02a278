// Texts of people and models. Searched words are marked, cut texts say so, turns and tool calls read as a conversation.
// A text is a string, or {text, length} if it was cut to its beginning.

import { chip, h } from "./dom.js";
import { count, plural } from "./numbers.js";

const MOST_MARKS = 400;

/** The text in pieces, with a <mark> around everything that was searched for. */
export function marked(text, query) {
  const words = (query || "").trim();
  if (!words) return [text];
  // A hyphen is not escaped: with the flag u, an escaped one is a syntax error.
  const pattern = new RegExp(words.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"), "giu");
  const pieces = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    if (pieces.length > 2 * MOST_MARKS) break;
    pieces.push(text.slice(end, match.index), h("mark", {}, match[0]));
    end = match.index + match[0].length;
  }
  return [...pieces, text.slice(end)];
}

export const plainText = (text) => (typeof text === "string" ? text : text.text);
export const lengthOf = (text) => (typeof text === "string" ? [...text].length : text.length);

export function textBlock(text, className, query) {
  if (text === "") return h("pre", { class: className }, h("span", { class: "muted" }, "(empty)"));
  if (typeof text === "string") return h("pre", { class: className }, marked(text, query));
  const rest = text.length - [...text.text].length;
  const cut = h("span", { class: "cut" }, ` … ${count(rest)} more characters left out of this report`);
  return h("pre", { class: className }, marked(text.text, query), cut);
}

export function reasoningView(text, query) {
  if (!text || lengthOf(text) === 0) return null;
  const isHit = Boolean(query) && plainText(text).toLowerCase().includes(query.trim().toLowerCase());
  return h("details", { open: isHit },
    h("summary", {}, `Reasoning, ${count(lengthOf(text))} characters`),
    textBlock(text, "said thought", query));
}

/** messages: {role, content, reasoning, error, calls: [{name, arguments, result, error}]}. */
export function conversation(messages, query) {
  const hasToolMessages = messages.some((message) => message.role === "tool");
  return h("ol", { class: "turns" }, messages.map((message) => {
    const calls = message.calls || [];
    const kind = message.role === "assistant" || message.role === "tool" ? message.role : "other";
    const hasContent = lengthOf(message.content) > 0 || !calls.length;
    return h("li", { class: `turn ${kind}` },
      h("b", { class: "role" }, message.role),
      message.error && chip("error", "bad"),
      reasoningView(message.reasoning, query),
      hasContent && textBlock(message.content, "said", query),
      calls.map((call) => callView(call, query, hasToolMessages)));
  }));
}

function callView(call, query, hasToolMessages) {
  const result = call.result === undefined
    ? !hasToolMessages && h("p", { class: "muted" }, "no result recorded")
    : [h("span", { class: "came-back" }, "result"), textBlock(call.result, "said", query)];
  return h("div", { class: call.error ? "call failed" : "call" },
    h("div", { class: "call-name" }, h("code", {}, marked(call.name, query)), call.error && chip("failed", "bad")),
    textBlock(call.arguments, "said given", query),
    result);
}

/** Such as "3 turns, 2 tool calls". */
export function turnsTitle(messages) {
  const calls = messages.flatMap((message) => message.calls || []);
  const failed = calls.filter((call) => call.error).length;
  const parts = [
    plural(messages.length, "turn"),
    calls.length > 0 && plural(calls.length, "tool call"),
    failed > 0 && `${failed} failed`,
  ];
  return parts.filter(Boolean).join(", ");
}
