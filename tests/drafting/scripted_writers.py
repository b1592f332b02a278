"""Writers and judges that answer by rule, for tests of drafting: nothing here is a real model."""

import json
import re

from judges.server import MODEL, Answer

MOON = "Does the answer name the moon?"
SUN = "Does the answer name the sun?"
MENTIONS_MOON = "Does the answer mention the moon by name?"
LONG = "Does the answer go into detail?"
TWO = "Is the answer polite and correct?"


def item(question, points=5):
    return {"question": question, "points": points, "category": "Essential"}


def files(tmp_path, *writers, cache="writers.sqlite", endpoint=None, **settings):
    """A writers file with one entry for each server. endpoint: options of every endpoint; settings: of the file."""
    entries = [
        {"name": f"writer{i}", "endpoints": [{"base_url": server.url, "model": MODEL, **(endpoint or {})}]}
        for i, server in enumerate(writers)
    ]
    path = tmp_path / "writers.json"
    path.write_text(json.dumps({"judges": entries, "cache": str(tmp_path / cache), **settings}))
    return path


def reply(data):
    return Answer(json.dumps(data))


def script(items, same=(), text="moon sun"):
    """A writer that gives these items, merges these pairs, and breaks with this text."""

    def answer(asked):
        prompt = asked.prompt
        if prompt.startswith("You read a request"):
            return reply({"constraints": [], "library": []})
        if prompt.startswith("You write a rubric"):
            return reply({"items": items})
        if prompt.startswith("Two people"):
            return reply({"same": list(same)})
        if prompt.startswith("Write a cheap answer"):
            return reply({"text": text})
        response = prompt.split("]=====\n")[1].split("\n=====[")[0]
        question = prompt.split("]=====\n")[2]
        word = next((word for word in ("moon", "sun", "sea") if word in question), "moon")
        return reply({"text": response.replace(word, "thing") if LONG not in question else response})

    return answer


def judge_by_words(asked):
    """A judge that looks for the word of each question; about detail it says the opposite if it is asked first."""
    system, user = (message["content"] for message in asked.body["messages"][-2:])
    response = re.search(r"<response \w+>\n(.*?)\n</response", user, re.DOTALL)[1].lower()

    listed = re.findall(r"\b(c\d+) \(item \d+\): ([^\n]*)", system)

    def verdict(question):
        word = re.search(r"moon|sun|sea|detail", question)[0]
        holds = word in response
        if word == "detail":
            holds = len(response) % 2 == (bool(listed) and "detail" in listed[0][1])
        return {"reasoning": "", "finding": "holds" if holds else "does not hold", "verdict": int(holds)}

    if listed:
        return reply({key: verdict(question) for key, question in listed})
    return reply(verdict(re.search(r"Does the answer [^\n]*", system + user)[0]))


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)
