"""Writers and judges that answer by rule, on a loopback server: they show that drafting works, not how well it works.

    with ScriptedModels() as models:
        models.url                     an OpenAI-compatible endpoint; the model is called "scripted"

As a writer it asks for the words that the best response has and the weakest has not, and adds items that ought to be
dropped: a double question, one that every response fulfils, one that likes length, one that nobody can answer twice in
the same way. As a judge it looks for the word in quotation marks. As a matcher it compares words.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

MODEL = "scripted"
_COMMON = ("about", "from", "into", "that", "their", "they", "this", "were", "which", "with")
_FENCE = re.compile(r"=====\[[0-9a-f]{16}\]=====")


def answer(prompt: str, keys: Sequence[str] = ()) -> dict[str, Any]:
    """The reply to any prompt of drafting, of a judge, or of the matcher. keys: of the schema of the reply."""
    parts = _FENCE.split(prompt)
    if prompt.startswith("You read a request"):
        return _compile(parts[2].strip())
    if prompt.startswith("Does a request ask"):
        return {"entailed": True}
    if prompt.startswith("Write two short texts"):
        return {"passing": "| a | b |\n|---|---|\n| 1 | 2 |", "failing": "a is 1, b is 2"}
    if prompt.startswith("You write a rubric"):
        return {"items": _write(parts[-1])}
    if prompt.startswith("Two people"):
        return {"same": []}
    if prompt.startswith("Write a cheap answer"):
        return {"text": "Some general words, and nothing about the matter."}
    if prompt.startswith("Change an answer"):
        word = re.search(r"“([^”]+)”", parts[3])
        text = parts[2].strip()
        return {"text": re.sub(word[1], "thing", text, flags=re.IGNORECASE) if word else text}
    if prompt.startswith("Which criteria of the experts"):
        return _match(parts[2], parts[3])
    return _judge(prompt, keys)


def _compile(request: str) -> dict[str, Any]:
    match = re.search(r"in rows and columns", request)
    constraints = []
    if match:
        params = {"format": "table", "only": False}
        constraints.append({"verifier": "FormatRequirement", "params": params, "evidence": match[0]})
    return {"constraints": constraints, "library": []}


def _write(material: str) -> list[dict[str, Any]]:
    responses = re.findall(r"Answer \d+ \([^)]*\):\n(.*?)(?=\nAnswer \d+ \(|\nWrite 4 to 8)", material, re.DOTALL)
    best = _words(responses[0]) if responses else []
    weakest = set(_words(responses[-1])) if responses else set()
    words = [word for word in best if word not in weakest][:4]
    items = [{"question": f"Does the answer name “{word}”?", "points": 5, "category": "Essential"} for word in words]
    if len(items) > 1:
        items[1]["depends"] = 1
    items.append({"question": "Is the answer polite and correct?", "points": 5, "category": "Important"})
    items.append({"question": "Does the answer contain a letter “e”?", "points": 2, "category": "Optional"})
    items.append({"question": "Does the answer go into detail?", "points": 3, "category": "Optional"})
    items.append({"question": "Does the answer feel right?", "points": 3, "category": "Optional"})
    return items


def _words(text: str) -> list[str]:
    words = [word.lower() for word in re.findall(r"[A-Za-z]{4,}", text)]
    return [word for word in dict.fromkeys(words) if word not in _COMMON]


def _judge(prompt: str, keys: Sequence[str]) -> dict[str, Any]:
    """Verdicts by the keys that the schema of the reply asks for."""
    response = re.search(r"<response \w+>\n(.*?)\n</response", prompt, re.DOTALL)
    text = response[1] if response else ""
    if "verdict" in keys:
        question = re.search(r"(?:Does|Is) the answer [^\n]*", prompt)
        return _verdict(question[0] if question else "", text, prompt)
    questions = dict(re.findall(r"^(.+?)(?: \([^\n]*?\))?: ((?:Does|Is) the answer [^\n]*)$", prompt, re.MULTILINE))
    return {key: _verdict(questions.get(key, ""), text, prompt) for key in keys}


def _verdict(question: str, text: str, prompt: str) -> dict[str, Any]:
    word = re.search(r"“([^”]+)”", question)
    if word:
        holds = word[1].lower() in text.lower()
    elif "detail" in question:
        holds = len(text) > 90
    elif "feel right" in question:
        holds = int(hashlib.sha256(prompt.encode()).hexdigest(), 16) % 2 == 0  # changes with the order of the criteria
    else:
        holds = bool(set(_words(question)) & set(_words(text)))
    return {"reasoning": "", "finding": "holds" if holds else "does not hold", "verdict": int(holds)}


def _match(experts: str, items: str) -> dict[str, Any]:
    expert_lines = re.findall(r"^\d+\. (.*)$", experts, re.MULTILINE)
    item_lines = re.findall(r"^\d+\. (.*)$", items, re.MULTILINE)
    pairs = []
    for e, expert in enumerate(expert_lines, start=1):
        for i, item in enumerate(item_lines, start=1):
            named = re.search(r"“([^”]+)”", item)
            if named and named[1].lower() in expert.lower():
                pairs.append([e, i])
    return {"same": pairs}


class ScriptedModels:
    """The server, for the time of a `with` block."""

    def __enter__(self) -> Self:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                prompt = "\n".join(message["content"] for message in body["messages"])
                schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
                text = json.dumps(answer(prompt, list(schema.get("properties", {}))))
                choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
                usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4}
                reply = {"id": "s", "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage}
                self.reply(reply)

            def do_GET(self) -> None:
                self.reply({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

            def reply(self, value: Any) -> None:
                data = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client may close its connection at any time."""

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The base URL of the endpoint."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def settings(self, name: str) -> dict[str, Any]:
        """What a writers file or a judges file would hold."""
        price = {"input": 1.0, "output": 4.0}
        return {"judges": [{"name": name, "endpoints": [{"base_url": self.url, "model": MODEL, "price": price}]}]}
