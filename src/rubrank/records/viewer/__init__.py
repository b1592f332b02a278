"""A local page over records, also while they are being written: steps → groups → one group → one rollout.

    rubrank view records.jsonl                        one run
    rubrank view run-a/ run-b/records.jsonl           two runs, compared

Nothing is loaded as a whole. A run's files are scanned for line ends, and what lists, filters and curves need of each
record is kept in columns (`index.py`); records themselves are read when they are looked at.

    sources.py     files of a run: plain, compressed, Parquet, folders of them; growing or replaced
    light.py       the fields of a record that an index needs, decoded quickly
    index.py       columns over all groups
    run.py         a run: its files, its index, the thread that keeps both up to date
    finding.py     filters, orders, search          curves.py      means over steps
    showing.py     one group for the page, under its own rule or another
    app.py         the pages' addresses             serving.py     host, port, token
    assets/        the page; what it shares with the report is in records/pages/
"""
