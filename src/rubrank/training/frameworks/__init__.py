"""Adapters: one module per training framework; docs/frameworks.md says how to connect each of them.

Every adapter does the same four things:

    1. load the engine          `load_engine(source, "slime")`: an engine, a configuration file, or RUBRANK_CONFIG
    2. read what is passed      prompt and row → `make_query`; each response → `Completion`, with its finish reason
    3. score                    one group: `score_query`; a batch of groups: `score_flat`; single samples: `Barrier`
    4. return rewards           in the trainer's own shape; most trainers cannot leave a rollout out, so one without any
                                score gets the mean of its group (`means=True`)

The adapters differ in who calls them, with what, and in what the trainer cannot tell them: its step, whether it
evaluates, which samples belong together. The docstring of an adapter says that, after an example of its use:

    Input         who calls it, with what, and which samples are a group
    Output        what the framework gets; what happens to a rollout without any score
    Evaluations   whether the framework says when it evaluates
    Step          where the step of the run comes from, if the framework does not pass it
    Tested        what was run with the framework itself, and what only with a stand-in
"""
