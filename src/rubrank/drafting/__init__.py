"""Draft rubrics from prompts: `rubrank draft prompts.jsonl -o rubrics.jsonl`.

Most prompts state some of what a good response must do. "Write a poem of at least 20 words without commas" gives two
criteria that programs decide; that it is a poem gives further criteria of the library; and models can write questions
for a judge that fit this prompt alone. The steps from a prompt to its rubric:

    prompt
      │ prepare     sentences, with tokens for quantities and quotations                  sentences.py
      │ compile     constraints that the prompt states → criteria that programs decide    compiler.py, rules/
      │ check       a criterion's parameters occur in the prompt                          draft.py
      │ activate    criteria of the library that fit the type of task                     draft.py, data/tasks.yaml
      ▼
    rubric          without a model, the draft ends here: `draft_rubric`                  draft.py
      │ find        a model finds constraints that the rules missed                       model.py
      │ write       models ("writers") write items, which are questions for a judge       writers.py, templates/
      │ keep        judges grade known responses on the items; those that do not help
      │             to tell good responses from bad ones are dropped                      keep.py
      ▼
    rubric          `draft_rubrics`                                                       pipeline.py

Beside the steps:

    pipeline.py                   also estimates what drafting with models would cost (`--dry-run`)
    page.py                       drafted rubrics beside their prompts (`rubrank view`, `rubrank report`)
    lint.py                       what is weak in a rubric, drafted or not (`rubrank lint`)
    evolution.py                  items that are written and kept while a training run goes on (`rubrank evolve`)
"""
