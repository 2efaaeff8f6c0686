"""Ranked causes in a graph of services or parts, from their metrics and relations alone: no logs, no traces, no rules.

    long table -> Readings -> roles -> with a symptom:    what explains it (deviation, propagation, symptom)
                                    -> without a symptom: what speaks against each entity (deviation, evidence)

`ranking.ranked_causes` is the one entry: `leadline diagnose --metrics` calls it, and `evals.rootcause` scores it.
"""
