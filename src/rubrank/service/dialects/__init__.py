"""What trainers already speak, one sample per call.

    openrlhf.py      --reward.remote_url         {"query": […], "prompts": […], "labels": […]}
    slime.py         --rm-type remote_rm         {"prompt": …, "response": …, "label": …}; miles the same
    nemo_gym.py      POST /verify                {"responses_create_params": …, "response": …}

Each reads its body into samples, which meet their siblings in `cohorts.py`, and writes the answers in its own words.

How to add one: a module with `samples(body, reading)` and `answer(body, answers)`, and a line in `app.py`.
"""
