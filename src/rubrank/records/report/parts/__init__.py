"""The parts of a report. Each takes groups one by one, and gives plain data for the page.

    part = Gates()
    for group in groups: part.add(group)
    part.result()        {"rollouts": 80000, "stopped": 412, "hard": [{"name": "Truncated", "stopped": 300, …}], …}

NaN in a result = nothing to say; the page gets null.
"""
