"""A judge decides what no program can: any OpenAI-compatible endpoint, here a small one in this process.

Run it: python examples/11_judges.py

The endpoint knows one fact and answers by it, so that the example needs no model. In practice, `base_url` is that of
vLLM, SGLang or a provider, and the rest stays as it is.
"""

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import rubrank


class Endpoint(BaseHTTPRequestHandler):
    """Says yes where a response mentions the moon."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send({"object": "list", "data": [{"id": "toy", "object": "model"}]})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"][-1]["content"]
        (response,) = re.findall(r"<response \w+>(.*)</response", asked, re.DOTALL)
        right = "moon" in response.lower()
        said = "The moon is named." if right else "No cause is named."
        finding = {"reasoning": said, "finding": "holds" if right else "does not hold", "verdict": int(right)}
        message = {"role": "assistant", "content": json.dumps({"Right": finding})}
        usage = {"prompt_tokens": len(asked) // 4, "completion_tokens": 12, "total_tokens": len(asked) // 4 + 12}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self.send({"id": "1", "object": "chat.completion", "model": "toy", "choices": [choice], "usage": usage})

    def send(self, data):
        body = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


rollouts = [
    {"id": "tides", "prompt": "Why are there tides?", "responses": ["The moon pulls.", "Wind.", "Well, the moon."]}
]
rubric = [
    {"name": "Right", "question": "Does the answer name the cause?", "weight": 2},
    {"name": "Short", "verifier": "WordCount", "params": {"high": 3}},
]

server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
Thread(target=server.serve_forever, daemon=True).start()
endpoint = {
    "base_url": f"http://127.0.0.1:{server.server_port}/v1",
    "model": "toy",
    "price": {"input": 0.1, "output": 0.3},
}
judges = {"judges": [{"name": "main", "endpoints": [endpoint]}], "cache": "replies.sqlite"}

table = rubrank.grade(rollouts, rubric, judges=judges, workers=0)
for i in range(3):
    print(f"response {i}: {table['tides'].score(i, 'Right'):g}, {table['tides'].reason(i, 'Right')}")
print("rewards", table.fuse().reward.round(2))
assert table.judging is not None
print(f"{table.judging.account.calls} calls")

again = rubrank.grade(rollouts, rubric, judges=judges, workers=0)  # replies are kept: nothing is paid twice
assert again.judging is not None
print(f"again: {again.judging.account.calls} calls, {again.judging.account.hits} from the cache")
server.shutdown()
server.server_close()
