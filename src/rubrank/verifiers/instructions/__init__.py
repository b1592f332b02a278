"""The instructions of IFEval, M-IFEval, IFBench and IF-RLVR: about 150 verifiers, named as in the public data.

    ifeval_words, ifeval_format                    IFEval: keywords:existence, startend:quotation …
    m_ifeval                                       M-IFEval: what only Spanish, French or Japanese has
    ifbench_words, ifbench_format, ifbench_custom  IFBench: count:numbers, format:emoji, custom:csv_city …
    if_rlvr                                        IF-RLVR: constraints that only the training data has

Most have two readings, chosen by `compat`:
- "fixed" does what the instruction says, with words and sentences as a reader sees them (`Text`).
- "upstream" gives the verdict of the benchmark's public checker, faults included; each docstring says where it differs.

Their vocabulary is `shared/instruction.py`: how an instruction is registered, what counts as a word, how counts are
compared, and the checks that occur in several benchmarks.
"""
