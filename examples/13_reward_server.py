"""Rewards over HTTP: `rubrank serve` in a process of its own, asked for the rewards of a group.

Run it: python examples/13_reward_server.py
"""

import json
import subprocess
import sys
from pathlib import Path

from rubrank import RewardClient

rubric = ["EmptyAnswer", {"name": "WordCount", "params": {"low": 3}}]
Path("service.json").write_text(json.dumps({"rubric": rubric, "port": 0}))
command = [sys.executable, "-m", "rubrank", "serve", "service.json"]
with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
    assert server.stderr is not None
    url = server.stderr.readline().split()[-1]  # the first line says where it listens
    group = {"id": "tides", "prompt": "Explain tides.", "responses": ["The moon pulls.", "Moon.", ""]}
    with RewardClient(url) as client:
        answer = client.groups([group], step=0)["groups"][0]
    server.terminate()

print("rewards", answer["rewards"])
print("why", answer["reasons"]["WordCount"])
