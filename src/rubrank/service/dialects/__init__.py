"""The requests of trainers that send one sample per call.

    openrlhf.py      --reward.remote_url         {"query": […], "prompts": […], "labels": […]}
    slime.py         --rm-type remote_rm         {"prompt": …, "response": …, "label": …}; miles the same
    nemo_gym.py      POST /verify                {"responses_create_params": …, "response": …}

Each reads the body of a request into samples, which meet their siblings in `cohorts.py`, and writes the answers in the
format of its trainer.

To add one: a module with `read_samples(body, reader)` and `write_answer(body, answers)`, and a line in `app.py`.
"""
