"""A small model behind an OpenAI-compatible endpoint.

    python tests/judges/small_server.py         http://127.0.0.1:41237/v1      (until its standard input ends)

    client.chat.completions.create(model="SmolLM2-135M-Instruct", messages=[…], temperature=0, seed=1, max_tokens=64,
        logprobs=True, top_logprobs=5, response_format={"type": "json_schema", "json_schema": {"name": …, "schema": …}})

What it does not do (streams, tools, several choices, other schemas) it refuses with status 400, as a real server does.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from small_model import NAME
from small_writer import Engine, OutOfTokensError, RefusedError, Writer


def complete(engine: Engine, request: Mapping[str, Any]) -> dict[str, Any]:
    """The body of the reply to a chat request."""
    for field, only in {"stream": False, "n": 1, "tools": None}.items():
        if request.get(field) not in (None, only):
            raise RefusedError(f"{field} must be {only!r} here, got {request[field]!r}.")
    form = request.get("response_format") or {"type": "text"}
    if form["type"] not in ("text", "json_schema"):
        raise RefusedError(f"response_format must be of type text or json_schema here, got {form['type']!r}.")
    prompt = engine.tokenizer.apply_chat_template(request["messages"], add_generation_prompt=True, return_dict=False)
    writer, finish = Writer(engine, prompt, request), "stop"
    try:
        if form["type"] == "text":
            writer.text()
        else:
            writer.value(form["json_schema"]["schema"], [""])
    except OutOfTokensError:
        finish = "length"
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": engine.tokenizer.decode(writer.ids)},
        "logprobs": {"content": writer.logprobs} if request.get("logprobs") else None,
        "finish_reason": finish,
    }
    usage = {
        "prompt_tokens": len(prompt),
        "completion_tokens": len(writer.ids),
        "total_tokens": len(prompt) + len(writer.ids),
        "prompt_tokens_details": {"cached_tokens": writer.reused},
    }
    head = {"id": f"chatcmpl-{time.time_ns()}", "object": "chat.completion", "created": int(time.time()), "model": NAME}
    return {**head, "choices": [choice], "usage": usage}


class Handler(BaseHTTPRequestHandler):
    """Two routes: /v1/models and /v1/chat/completions."""

    protocol_version = "HTTP/1.1"
    engine: Engine
    busy = threading.Lock()  # one reply at a time: the engine has one cache

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._send(200, {"object": "list", "data": [{"id": NAME, "object": "model", "owned_by": "local"}]})
        else:
            self._refuse(404, f"There is no {self.path} here.")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/v1/chat/completions":
            return self._refuse(404, f"There is no {self.path} here.")
        try:
            request = json.loads(body)
            if request["model"] != NAME:
                return self._refuse(404, f"The model {request['model']!r} does not exist.")
            with self.busy:
                reply = complete(self.engine, request)
        except (ValueError, KeyError, TypeError) as error:
            return self._refuse(400, f"{type(error).__name__}: {error}")
        return self._send(200, reply)

    def _refuse(self, status: int, message: str) -> None:
        self._send(
            status, {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": status}}
        )

    def _send(self, status: int, content: Mapping[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # quiet
        pass


if __name__ == "__main__":
    Handler.engine = Engine()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdin.read()  # ends with whoever started it, even if that was killed
